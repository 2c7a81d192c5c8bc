"""Overflows: the flags of devices that saturate instead of giving inf, and the report about a skipped step.

A device that saturates (torch.npu.utils.is_support_inf_nan() is False) leaves no inf in the gradients. There amp clears the
overflow flag of each device before the backward pass and reads it after it. The result counts for all ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class OverflowReport:
    """The first parameter, in the order of the optimizer, whose gradient was not finite at a skipped step.

    parameter, module: their names in the model, or None if the parameter is in no model of amp.initialize. kind: the class of
    the module. operator: the operator that computes with the parameter in the forward pass, or None if it is unknown.
    flag_only: the overflow flag of the device was set, but all gradients are finite; then the other fields are None.
    """

    loss_id: int
    loss_scale: float
    parameter: str | None
    module: str | None
    kind: str | None
    operator: str | None
    flag_only: bool
    nonfinite: int
    total: int

    def __str__(self) -> str:
        start = f"loss scaler {self.loss_id} overflowed at the scale {self.loss_scale:g}"
        if self.flag_only:
            return f"{start}: the overflow flag of the device is set, and all gradients are finite"
        where = f"{self.parameter or 'a parameter outside the models'}"
        if self.kind:
            where += f" of {self.module or 'the model'} ({self.kind})"
        used = f", used by {self.operator}" if self.operator else ""
        return f"{start}: {self.nonfinite} of {self.total} elements of the gradient of {where}{used} are not finite"


