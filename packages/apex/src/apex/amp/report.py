"""amp.overflow_report: which gradient overflowed first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ._amp_state import _amp_state
from .overflow import OverflowReport, devices_saturate

# Nodes between a parameter and the operator that uses it: casts and changes of shape.
_PASSED = ("ToCopy", "T", "Transpose", "View", "UnsafeView", "Reshape", "Expand", "Permute", "AsStrided", "Unsqueeze", "Squeeze")


def overflow_report() -> OverflowReport | None:
    """About the last skipped step: the first parameter whose gradient overflowed, its module and its operator. None if no step
    was skipped since amp.initialize."""
    return getattr(_amp_state, "last_overflow", None)


@torch.no_grad()
def report_overflow(optimizers: Sequence[Any], loss: torch.Tensor, loss_id: int, scale: float) -> OverflowReport:
    """Looks through the gradients after a backward pass that overflowed."""
    for optimizer in optimizers:
        stash = optimizer._amp_stash
        pairs = [(param, param) for param in stash.all_fp32_from_fp32_params]
        pairs += [(param, param) for param in stash.all_fp16_params]
        wanted = {id(param) for param, _ in pairs}
        order = [param for model in _models() for param in model.parameters() if id(param) in wanted]
        order += [param for param, _ in pairs if all(param is not other for other in order)]
        for param in order:
            bad = _count_bad(param, scale, is_scaled=stash.master_weights and id(param) in {id(p) for p in stash.all_fp16_params})
            if bad:
                name, module, kind = _names(param)
                return OverflowReport(
                    loss_id, scale, name, module, kind, _operator(loss, param), False, bad, int(param.grad.numel())
                )
    return OverflowReport(loss_id, scale, None, None, None, None, True, 0, 0)


def _count_bad(param: torch.Tensor, scale: float, is_scaled: bool) -> int:
    """The number of elements that are not finite or, on a device that saturates, the largest number of float16."""
    if param.grad is None:
        return 0
    values = (param.grad.coalesce().values() if param.grad.is_sparse else param.grad).float()
    bad = ~values.isfinite()
    if param.device.type == "npu" and devices_saturate():
        scaled = values if is_scaled else values * scale
        bad |= scaled.abs() >= torch.finfo(torch.float16).max
    return int(bad.sum().item())


def _models() -> list[torch.nn.Module]:
    return [key for key in list(_amp_state.undo.keys()) if isinstance(key, torch.nn.Module)]


def _names(param: torch.Tensor) -> tuple[str | None, str | None, str | None]:
    for model in _models():
        for name, module in model.named_modules():
            for own, candidate in module.named_parameters(recurse=False):
                if candidate is param:
                    return (f"{name}.{own}" if name else own), name, type(module).__name__
    return None, None, None


def _operator(loss: torch.Tensor, param: torch.Tensor) -> str | None:
    """The operator of the forward pass that uses the parameter, by the names of the autograd graph."""
    users: dict[Any, Any] = {}
    leaf, seen, todo = None, set(), [loss.grad_fn]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if getattr(node, "variable", None) is param:
            leaf = node
        for following, _ in node.next_functions:
            if following is not None:
                users.setdefault(following, node)
                todo.append(following)
    while leaf in users:
        leaf = users[leaf]
        name = leaf.name().removesuffix("0").removesuffix("Backward")
        if name.split("::")[-1] not in _PASSED:
            return name
    return None
