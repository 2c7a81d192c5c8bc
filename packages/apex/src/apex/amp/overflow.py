"""The overflow flags of devices that saturate instead of giving inf.

A device that saturates (torch.npu.utils.is_support_inf_nan() is False) leaves no inf in the gradients. There amp clears the
overflow flag of each device before the backward pass and reads it after it. The result counts for all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from ._amp_state import is_distributed


def devices_saturate() -> bool:
    """Whether this process uses npu devices that have no inf."""
    npu = getattr(torch, "npu", None)
    return npu is not None and npu.is_initialized() and not npu.utils.is_support_inf_nan()


def clear_flags(devices: Iterable[torch.device] | None = None) -> None:
    """Clears the flags of these devices; None for the current one."""
    for _ in _each(devices):
        torch.npu.clear_npu_overflow_flag()


def read_flags(devices: Iterable[torch.device] | None = None) -> bool:
    """Whether the flag of one of these devices is set; None for the current one. Waits for them."""
    return any([torch.npu.get_npu_overflow_flag() for _ in _each(devices)])


def any_rank(found: bool) -> bool:
    """Whether `found` is true on a rank of torch.distributed. All ranks call this together."""
    if not is_distributed():
        return found
    types = [device.type for device in torch.distributed.group.WORLD._device_types]
    device = torch.device("npu", torch.npu.current_device()) if "npu" in types else torch.device(types[0])
    count = torch.tensor([float(found)], device=device)
    torch.distributed.all_reduce(count)
    return count.item() != 0


def _each(devices: Iterable[torch.device] | None) -> Iterator[torch.device]:
    """Makes each device that saturates the current one in turn."""
    if not devices_saturate():
        return
    current = torch.device("npu", torch.npu.current_device())
    for device in sorted(set([current] if devices is None else devices), key=str):
        if device.type == "npu":
            with torch.npu.device(device):
                yield device
