"""Converts the ways to name a device to its index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .. import _C

if TYPE_CHECKING:
    from torch.types import Device


_LAST_INDEX = 127  # torch stores an index in a byte and would read 256 as 0


def _get_device_index(device: Device = None, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of an int, a string such as "npu:1" or a torch.device. A device without an index, and None with `optional`, mean
    the current device. Raises ValueError for another type of device and RuntimeError for an int that cannot be an index."""
    if device is None:
        if not optional:
            raise ValueError("a device is needed: an int, a string such as 'npu:0', or a torch.device")
        return _C._npu_current_device()
    if isinstance(device, int) and not isinstance(device, bool):
        if device > _LAST_INDEX:
            raise RuntimeError(
                f"invalid device npu:{device}: this process has {_C._npu_device_count()} NPUs. "
                "ASCEND_RT_VISIBLE_DEVICES says which ones it may use."
            )
        return _C._npu_current_device() if device == -1 else device
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device):
        raise TypeError(f"a device is an int, a string such as 'npu:0', or a torch.device, but got {device!r}")
    if allow_cpu and device.type == "cpu":
        return -1
    if device.type != "npu":
        raise ValueError(f"a device of type npu is needed, but got {device}")
    return _C._npu_current_device() if device.index is None else device.index
