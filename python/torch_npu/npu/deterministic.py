"""Deterministic algorithms for a part of a network, including its backward pass, and the level of determinism.

    x = torch.npu.enable_deterministic_with_backward(x)
    x = block(x)                                           # deterministic, and so is its gradient
    x = torch.npu.disable_deterministic_with_backward(x)

softnpu computes the same bits every time at every level. Operators that torch lists as nondeterministic raise an error.
"""

from __future__ import annotations

from typing import Any

import torch


class _Switch(torch.autograd.Function):
    """Sets torch.use_deterministic_algorithms(enable) in the forward pass, and the opposite in the backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, enable: bool) -> torch.Tensor:
        ctx.enable = enable
        torch.use_deterministic_algorithms(enable)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        torch.use_deterministic_algorithms(not ctx.enable)
        return gradient, None


def enable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Makes the following operators deterministic, and their backward pass, which ends at this call."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor: torch.Tensor) -> torch.Tensor:
    """Ends the deterministic part. The backward pass, which starts at the other end, becomes deterministic at this call."""
    return _Switch.apply(tensor, False)


_level = 0


def set_deterministic_level(level: int) -> None:
    """0: torch.use_deterministic_algorithms(False); 1, 2 or 3: True."""
    global _level
    if isinstance(level, bool) or level not in (0, 1, 2, 3):
        raise ValueError(f"the level of determinism is 0, 1, 2 or 3, but got {level!r}")
    torch.use_deterministic_algorithms(level > 0)
    _level = level


def _get_deterministic_level() -> int:
    """The level set last; 0 or 1 if torch.use_deterministic_algorithms has changed the state since."""
    enabled = torch.are_deterministic_algorithms_enabled()
    return _level if enabled == (_level > 0) else int(enabled)
