"""The overflow flags of devices that saturate instead of giving inf.

A device that saturates (torch.npu.utils.is_support_inf_nan() is False) leaves no inf in the gradients. There amp clears the
overflow flag of each device before the backward pass and reads it after it. The result counts for all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ._amp_state import is_distributed


def devices_saturate() -> bool:
    """Whether this process uses npu devices that have no inf."""
    npu = getattr(torch, "npu", None)
    return npu is not None and npu.is_initialized() and not npu.utils.is_support_inf_nan()


def clear_flags() -> None:
    if devices_saturate():
        for _ in _each_device():
            torch.npu.clear_npu_overflow_flag()


def read_flags() -> bool:
    """Whether the flag of a device of this process is set. Waits for the devices."""
    if not devices_saturate():
        return False
    # All are read: reading orders the flag behind the work of the device.
    return any([torch.npu.get_npu_overflow_flag() for _ in _each_device()])


def any_rank(found: bool) -> bool:
    """Whether `found` is true on a rank of torch.distributed. All ranks call this together."""
    if not is_distributed():
        return found
    types = [device.type for device in torch.distributed.group.WORLD._device_types]
    device = torch.device("npu", torch.npu.current_device()) if "npu" in types else torch.device(types[0])
    count = torch.tensor([float(found)], device=device)
    torch.distributed.all_reduce(count)
    return count.item() != 0


def _each_device() -> Iterator[int]:
    for index in range(torch.npu.device_count()):
        with torch.npu.device(index):
            yield index
