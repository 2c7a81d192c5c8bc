"""What a caller may write for a device, as its index."""

import torch

from .. import _C

_LAST_INDEX = 127  # of torch, which keeps an index in a byte and would take 256 for 0


def _get_device_index(device=None, optional=False, allow_cpu=False):
    """The index of an int, a string such as "npu:1" or a torch.device; without an index, and for None where that is allowed,
    the current one. ValueError for another type of device, RuntimeError for an int that cannot be an index."""
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
