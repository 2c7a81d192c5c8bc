"""Channel shuffle of two halves; the forward and the backward pass are one index_select each."""

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
        order = torch.arange(in_channels).view(2, -1).t().flatten()
        self.register_buffer("fp_index", order, persistent=False)
        self.register_buffer("bp_index1", torch.arange(0, in_channels, 2), persistent=False)
        self.register_buffer("bp_index2", torch.arange(1, in_channels, 2), persistent=False)

    def check_self(self, x: torch.Tensor) -> None:
        """Moves the indices to the device of x."""
        if self.fp_index.device != x.device:
            for name in ("fp_index", "bp_index1", "bp_index2"):
                setattr(self, name, getattr(self, name).to(x.device))

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> Any:
        self.check_self(x1)
        if not self.split_shuffle:
            return IndexSelectFullImplementation.apply(x1, x2, self.fp_index, self.bp_index1, self.bp_index2)
        left, right = self.fp_index[: self.group_len], self.fp_index[self.group_len :]
        return IndexSelectHalfImplementation.apply(x1, x2, left, right, self.bp_index1, self.bp_index2)


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
