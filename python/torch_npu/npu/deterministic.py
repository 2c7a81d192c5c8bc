"""Deterministic algorithms for a part of a network, its backward pass included, and their levels.

    x = torch.npu.enable_deterministic_with_backward(x)
    x = block(x)                                           # deterministic, and so is its gradient
    x = torch.npu.disable_deterministic_with_backward(x)

softnpu computes the same bits every time, whatever the level; operators that torch itself knows as nondeterministic are refused.
"""

import torch


class _Switch(torch.autograd.Function):
    """Sets torch.use_deterministic_algorithms on the way forward, and to the opposite on the way back."""

    @staticmethod
    def forward(ctx, tensor, enable):
        ctx.enable = enable
        torch.use_deterministic_algorithms(enable)
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, gradient):
        torch.use_deterministic_algorithms(not ctx.enable)
        return gradient, None


def enable_deterministic_with_backward(tensor):
    """From here on the forward pass is deterministic; the backward pass is so until it comes here."""
    return _Switch.apply(tensor, True)


def disable_deterministic_with_backward(tensor):
    """From here on the forward pass need not be deterministic; the backward pass is so once it was here."""
    return _Switch.apply(tensor, False)


_level = 0


def set_deterministic_level(level):
    """0: torch.use_deterministic_algorithms(False); 1, 2 or 3: True."""
    global _level
    if isinstance(level, bool) or level not in (0, 1, 2, 3):
        raise ValueError(f"the level of determinism is 0, 1, 2 or 3, but got {level!r}")
    torch.use_deterministic_algorithms(level > 0)
    _level = level


def _get_deterministic_level():
    """The level that was set, unless torch.use_deterministic_algorithms was called since."""
    enabled = torch.are_deterministic_algorithms_enabled()
    return _level if enabled == (_level > 0) else int(enabled)
