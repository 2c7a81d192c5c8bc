"""Ways to join the two branches of a block of ShuffleNet V2: concatenate, shuffle the channels, and halve again if `split`.

All give the same values and gradients. Each follows one measure of the documents' tuning example; README.md has the table. A join
of `channels` channels takes two tensors of half as many and returns a tensor, or with `split` a pair or a tensor to be halved.
"""

import torch
from torch import nn


def channel_shuffle(x, groups):
    """Channel i of group g becomes channel i * groups + g."""
    batch, channels, height, width = x.shape
    x = x.view(batch, groups, channels // groups, height, width)
    return x.transpose(1, 2).contiguous().view(batch, channels, height, width)


def shuffled(channels, groups=2):
    """The channels in shuffled order: a list."""
    length = channels // groups
    return [group * length + number for number in range(length) for group in range(groups)]


def channel_shuffle_index_select(x, groups=2):
    """channel_shuffle as one gather. Each call copies the index to the device."""
    index = torch.tensor(shuffled(x.shape[1], groups))
    return x.index_select(1, index.to(x.device))


class PlainShuffle(nn.Module):
    """torchvision's formula: a view, a transposition and a copy."""

    def __init__(self, channels, split):
        super().__init__()

    def forward(self, first, second):
        return channel_shuffle(torch.cat((first, second), 1), 2)


class IndexSelectShuffle(PlainShuffle):
    """A gather in place of the transposed copy."""

    def forward(self, first, second):
        return channel_shuffle_index_select(torch.cat((first, second), 1))


class _Indexed(nn.Module):
    """Index buffers of type int32, which move to the device with the module and are not saved."""

    def __init__(self, channels, split):
        super().__init__()
        self.split = split
        order = shuffled(channels)
        self._add("forward_index", order)
        self._add("forward_index1", order[: channels // 2])
        self._add("forward_index2", order[channels // 2 :])
        self._add("backward_index1", range(0, channels, 2))
        self._add("backward_index2", range(1, channels, 2))

    def _add(self, name, index):
        self.register_buffer(name, torch.tensor(list(index), dtype=torch.int32), persistent=False)


class BufferShuffle(_Indexed):
    """The gather with an index that is on the device already."""

    def forward(self, first, second):
        return torch.cat((first, second), 1).index_select(1, self.forward_index)


class SplitShuffle(_Indexed):
    """Two gathers make the halves that the next block needs, so that it has no chunks, which are not contiguous."""

    def forward(self, first, second):
        x = torch.cat((first, second), 1)
        if not self.split:
            return x.index_select(1, self.forward_index)
        return x.index_select(1, self.forward_index1), x.index_select(1, self.forward_index2)


class _GatherWhole(torch.autograd.Function):
    """Concatenation and shuffle. The backward pass gathers too, where autograd would scatter and chunk."""

    @staticmethod
    def forward(ctx, first, second, join):
        ctx.join = join
        return torch.cat((first, second), 1).index_select(1, join.forward_index)

    @staticmethod
    def backward(ctx, gradient):
        return (*ctx.join.gather(gradient), None)


class _GatherHalves(torch.autograd.Function):
    """As _GatherWhole, with the two halves as results."""

    @staticmethod
    def forward(ctx, first, second, join):
        ctx.join = join
        x = torch.cat((first, second), 1)
        return x.index_select(1, join.forward_index1), x.index_select(1, join.forward_index2)

    @staticmethod
    def backward(ctx, gradient1, gradient2):
        return (*ctx.join.gather(torch.cat((gradient1, gradient2), 1)), None)


class FusedShuffle(_Indexed):
    """Concatenation, shuffle and halving are one function with a backward pass of its own."""

    def gather(self, gradient):
        return gradient.index_select(1, self.backward_index1), gradient.index_select(1, self.backward_index2)

    def forward(self, first, second):
        return (_GatherHalves if self.split else _GatherWhole).apply(first, second, self)


class FormatShuffle(FusedShuffle):
    """Casts the gradient to NCHW once. On hardware each of the two gathers would cast it."""

    def gather(self, gradient):
        return super().gather(gradient.npu_format_cast(0) if gradient.device.type == "npu" else gradient)


class _Interleave(torch.autograd.Function):
    """Channels of the branches alternate. Each element is copied once, and the layout of the branches is kept: a stack of
    channels that are innermost in memory is one pass over both tensors."""

    @staticmethod
    def forward(ctx, first, second, parts):
        pairs = zip(_last(first).chunk(parts, -1), _last(second).chunk(parts, -1), strict=True)
        halves = tuple(_first(torch.stack(pair, -1).flatten(-2)) for pair in pairs)
        return halves if parts > 1 else halves[0]

    @staticmethod
    def backward(ctx, *gradients):
        channels = [_last(gradient).unflatten(-1, (-1, 2)).unbind(-1) for gradient in gradients]
        return *(_first(torch.cat(branch, -1)) for branch in zip(*channels, strict=True)), None


def _last(x):
    return x.permute(0, 2, 3, 1)


def _first(x):
    return x.permute(0, 3, 1, 2)


class InterleaveShuffle(nn.Module):
    """No gather and no index. The branches, the results and the gradients are in the layout channels_last."""

    def __init__(self, channels, split):
        super().__init__()
        if channels % 4:
            raise ValueError(f"InterleaveShuffle: channels is {channels}, but it must be a multiple of 4")
        self.parts = 2 if split else 1

    def forward(self, first, second):
        return _Interleave.apply(first, second, self.parts)
