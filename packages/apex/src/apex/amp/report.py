"""amp.overflow_report: which gradient overflowed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ._amp_state import _amp_state
from .overflow import devices_saturate

# Nodes between a parameter and the operator that uses it: casts and changes of shape.
_PASSED = ("ToCopy", "T", "Transpose", "View", "UnsafeView", "Reshape", "Expand", "Permute", "AsStrided", "Unsqueeze", "Squeeze")


@dataclass(frozen=True)
class OverflowReport:
    """The parameter whose gradient overflowed first in the backward pass of a skipped step.

    parameter, module: their names in the model, or None if no model of amp.initialize has the parameter. kind: the class of the
    module. operator: the operator that uses the parameter in the forward pass, or None if it is unknown. overflowed, total:
    elements of the gradient. parameters: the names of all parameters whose gradients overflowed, first first. If there are none,
    the overflow flag of a device or of another rank was set.
    """

    loss_id: int
    loss_scale: float
    parameter: str | None = None
    module: str | None = None
    kind: str | None = None
    operator: str | None = None
    overflowed: int = 0
    total: int = 0
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        start = f"loss scaler {self.loss_id} overflowed at the scale {self.loss_scale:g}"
        if not self.total:
            return f"{start}: an overflow flag is set, and the gradients of this rank are finite"
        where = self.parameter or "a parameter outside the models"
        if self.kind:
            where += f" in {self.module or 'the model'} ({self.kind})"
        used = f", used by {self.operator}," if self.operator else ""
        return f"{start}: {self.overflowed} of {self.total} elements of the gradient of {where}{used} overflowed"


def overflow_report() -> OverflowReport | None:
    """About the last skipped step. None if no step was skipped since amp.initialize."""
    return _amp_state.last_overflow


@torch.no_grad()
def report_overflow(optimizers: Sequence[Any], loss: torch.Tensor, loss_id: int, scale: float) -> OverflowReport:
    """Looks through the gradients after a backward pass that overflowed."""
    found = []
    for optimizer in optimizers:
        stash = optimizer._amp_stash
        for params, is_scaled in ((stash.all_fp16_params, stash.master_weights), (stash.all_fp32_from_fp32_params, False)):
            counts = [(param, _count(param, scale, is_scaled)) for param in params if param.grad is not None]
            found += [(param, count) for param, count in counts if count]
    if not found:
        return OverflowReport(loss_id, scale)
    users = _users(loss)
    # An operator that runs later in the forward pass runs earlier in the backward pass.
    ordered = sorted(found, key=lambda pair: users.get(id(pair[0]), (-1, ""))[0], reverse=True)
    first, count = ordered[0]
    names = _names()
    name, module, kind = names.get(id(first), (None, None, None))
    known = tuple(names[id(param)][0] for param, _ in ordered if id(param) in names)
    operator = users.get(id(first), (0, None))[1]
    return OverflowReport(loss_id, scale, name, module, kind, operator, count, first.grad.numel(), known)


def _count(param: torch.Tensor, scale: float, is_scaled: bool) -> int:
    """The number of elements that are not finite or, on a device that saturates, the largest number of float16."""
    values = (param.grad.coalesce().values() if param.grad.is_sparse else param.grad).float()
    bad = ~values.isfinite()
    if param.device.type == "npu" and devices_saturate():
        bad |= (values if is_scaled else values * scale).abs() >= torch.finfo(torch.float16).max
    return int(bad.sum().item())


def _names() -> dict[int, tuple[str, str, str]]:
    """Parameter -> its name, the name of its module, and the class of the module."""
    return {
        id(param): (f"{name}.{own}" if name else own, name, type(module).__name__)
        for model in list(_amp_state.undo.keys())
        for name, module in model.named_modules()
        for own, param in module.named_parameters(recurse=False)
    }


def _users(loss: torch.Tensor) -> dict[int, tuple[int, str]]:
    """Parameter -> when the forward pass used it last, and by which operator."""
    result: dict[int, tuple[int, str]] = {}
    seen: set[tuple[Any, Any]] = set()
    todo: list[tuple[Any, Any]] = [(loss.grad_fn, None)]
    while todo:
        node, user = todo.pop()
        if node is None or (node, user) in seen:
            continue
        seen.add((node, user))
        param = getattr(node, "variable", None)
        if param is not None and user is not None:
            result[id(param)] = max(result.get(id(param), (-1, "")), user)
            continue
        name = node.name().removesuffix("0").removesuffix("Backward").split("::")[-1]
        if name not in _PASSED or user is None:
            user = (node._sequence_nr(), name)
        todo += [(following, user) for following, _ in node.next_functions]
    return result
