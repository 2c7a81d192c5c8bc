"""Channel shuffle of two halves by one selection of channels, forwards and backwards."""

import torch
from torch import nn


class ChannelShuffle(nn.Module):
    """The channels of x1 and x2, alternating: in_channels of both together, as two halves, or without split_shuffle as one
    tensor.

        left, right = ChannelShuffle(64)(x1, x2)     # x1 and x2 have 32 channels each

    groups is 2."""

    def __init__(self, in_channels, groups=2, split_shuffle=True):
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

    def check_self(self, x):
        """Brings the indices to the device of x."""
        if self.fp_index.device != x.device:
            for name in ("fp_index", "bp_index1", "bp_index2"):
                setattr(self, name, getattr(self, name).to(x.device))

    def forward(self, x1, x2):
        self.check_self(x1)
        if not self.split_shuffle:
            return IndexSelectFullImplementation.apply(x1, x2, self.fp_index, self.bp_index1, self.bp_index2)
        left, right = self.fp_index[: self.group_len], self.fp_index[self.group_len :]
        return IndexSelectHalfImplementation.apply(x1, x2, left, right, self.bp_index1, self.bp_index2)


def indexselect_full_implementation_forward(x1, x2, fp_index):
    """The channels fp_index of x1 and x2, one behind the other."""
    return torch.cat((x1, x2), 1).index_select(1, fp_index)


def indexselect_half_implementation_forward(x1, x2, fp_index1, fp_index2):
    """The channels fp_index1, and the channels fp_index2, of x1 and x2, one behind the other."""
    x = torch.cat((x1, x2), 1)
    return x.index_select(1, fp_index1), x.index_select(1, fp_index2)


class IndexSelectFullImplementation(torch.autograd.Function):
    """indexselect_full_implementation_forward; bp_index1 and bp_index2 are where the channels of x1 and x2 went."""

    @staticmethod
    def forward(ctx, x1, x2, fp_index, bp_index1, bp_index2):
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_full_implementation_forward(x1, x2, fp_index)

    @staticmethod
    def backward(ctx, grad_output):
        first, second = ctx.saved_tensors
        return grad_output.index_select(1, first), grad_output.index_select(1, second), None, None, None


class IndexSelectHalfImplementation(torch.autograd.Function):
    """indexselect_half_implementation_forward; bp_index1 and bp_index2 are where the channels of x1 and x2 went."""

    @staticmethod
    def forward(ctx, x1, x2, fp_index1, fp_index2, bp_index1, bp_index2):
        ctx.save_for_backward(bp_index1, bp_index2)
        return indexselect_half_implementation_forward(x1, x2, fp_index1, fp_index2)

    @staticmethod
    def backward(ctx, grad_output1, grad_output2):
        first, second = ctx.saved_tensors
        grad = torch.cat((grad_output1, grad_output2), 1)
        return grad.index_select(1, first), grad.index_select(1, second), None, None, None, None
