"""Channel shuffle of two halves. ChannelShuffle interleaves them in one pass; the functions below select any channels."""

from typing import Any

import torch
from torch import nn


class ChannelShuffle(nn.Module):
    """Interleaves the channels of x1 and x2. in_channels is their sum. The result is two halves, or one tensor with
    split_shuffle=False.

        left, right = ChannelShuffle(64)(x1, x2)     # x1 and x2 have 32 channels each

    groups is 2."""

    def __init__(self, in_channels: int, groups: int = 2, split_shuffle: bool = True) -> None:
        super().__init__()
        if groups != 2 or in_channels % 2:
            raise ValueError(
                f"ChannelShuffle mixes two halves, so groups is 2 and in_channels even, not {groups} and {in_channels}"
            )
        self.split_shuffle = split_shuffle
        self.group_len = in_channels // 2

    def check_self(self, x: torch.Tensor) -> None:
        """Raises ValueError unless x has half of in_channels."""
        if x.dim() < 2 or x.size(1) != self.group_len:
            raise ValueError(
                f"ChannelShuffle({2 * self.group_len}) takes two tensors [n, {self.group_len}, ...], not {list(x.shape)}"
            )

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Any:
        self.check_self(x1)
        self.check_self(x2)
        if not self.split_shuffle:
            return _interleaved(x1, x2)
        if self.group_len % 2 == 0:
            return _InterleavedHalves.apply(x1, x2)
        left, right = _interleaved(x1, x2).chunk(2, 1)
        return left.contiguous(), right.contiguous()

    def extra_repr(self) -> str:
        return f"{2 * self.group_len}, split_shuffle={self.split_shuffle}"


def _interleaved(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    return torch.stack((x1, x2), 2).flatten(1, 2)


class _InterleavedHalves(torch.autograd.Function):
    """The two halves of _interleaved(x1, x2), an even number of channels each. Its backward pass joins the parts of a gradient
    once, where that of PyTorch would pad and add them."""

    @staticmethod
    def forward(ctx: Any, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = zip(x1.chunk(2, 1), x2.chunk(2, 1), strict=True)
        return _interleaved(*left), _interleaved(*right)

    @staticmethod
    def backward(ctx: Any, left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = zip(*(grad.unflatten(1, (-1, 2)).unbind(2) for grad in (left, right)), strict=True)
        first, second = (torch.cat(part, 1) for part in parts)
        return first, second


def indexselect_full_implementation_forward(x1: torch.Tensor, x2: torch.Tensor, fp_index: torch.Tensor) -> torch.Tensor:
    """The channels fp_index of the concatenation of x1 and x2."""
    return torch.cat((x1, x2), 1).index_select(1, fp_index)


def indexselect_half_implementation_forward(
    x1: torch.Tensor, x2: torch.Tensor, fp_index1: torch.Tensor, fp_index2: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The channels fp_index1, and the channels fp_index2, of the concatenation of x1 and x2."""
    x = torch.cat((x1, x2), 1)
    return x.index_select(1, fp_index1), x.index_select(1, fp_index2)


class IndexSelectFullImplementation(torch.autograd.Function):
    """indexselect_full_implementation_forward; bp_index1 and bp_index2 are the new positions of the channels of x1 and x2."""

    @staticmethod
    def forward(
        ctx: Any, x1: torch.Tensor, x2: torch.Tensor, fp_index: torch.Tensor, bp_index1: torch.Tensor, bp_index2: torch.Tensor
    ) -> torch.Tensor:
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_full_implementation_forward(x1, x2, fp_index)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        first, second = ctx.saved_tensors
        return grad_output.index_select(1, first), grad_output.index_select(1, second), None, None, None


class IndexSelectHalfImplementation(torch.autograd.Function):
    """indexselect_half_implementation_forward; bp_index1 and bp_index2 are the new positions of the channels of x1 and x2."""

    @staticmethod
    def forward(
        ctx: Any,
        x1: torch.Tensor,
        x2: torch.Tensor,
        fp_index1: torch.Tensor,
        fp_index2: torch.Tensor,
        bp_index1: torch.Tensor,
        bp_index2: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_half_implementation_forward(x1, x2, fp_index1, fp_index2)

    @staticmethod
    def backward(ctx: Any, grad_output1: torch.Tensor, grad_output2: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        first, second = ctx.saved_tensors
        grad = torch.cat((grad_output1, grad_output2), 1)
        return grad.index_select(1, first), grad.index_select(1, second), None, None, None, None
