"""A block of ShuffleNet whose branches are joined, shuffled and split by index_select alone, forwards and backwards: nothing
transposed is copied. The gradient is brought to NCHW through its `.data`. The plain block on the CPU gives the same."""

import copy

import torch
from torch import nn

NCHW = 0


class Shuffle(torch.autograd.Function):
    """Concatenates both inputs and takes the channels `order`; `back` holds the new positions of each input's channels."""

    @staticmethod
    def forward(ctx, first, second, order, *back):
        torch.npu.current_stream().synchronize()
        ctx.back = back
        return torch.cat([first, second], dim=1).index_select(1, order)

    @staticmethod
    def backward(ctx, grad):
        torch.npu.current_stream().synchronize()
        grad.data = grad.data.npu_format_cast(NCHW)
        return *(grad.index_select(1, places) for places in ctx.back), None, None, None


class ShuffleInHalves(torch.autograd.Function):
    """Shuffles the channels and splits them in the middle."""

    @staticmethod
    def forward(ctx, first, second, left, right, *back):
        ctx.back = back
        both = torch.cat([first, second], dim=1)
        return both.index_select(1, left), both.index_select(1, right)

    @staticmethod
    def backward(ctx, grad_left, grad_right):
        grad = torch.cat([grad_left, grad_right], 1)
        return *(grad.index_select(1, places) for places in ctx.back), None, None, None, None


class ChannelShuffle(nn.Module):
    """The indices are int32 buffers, so that they move with the module."""

    def __init__(self, channels, halves):
        super().__init__()
        self.halves = halves
        order = torch.arange(channels, dtype=torch.int32).view(2, -1).t().flatten()
        self.register_buffer("order", order)
        self.register_buffer("back1", torch.arange(0, channels, 2, dtype=torch.int32))
        self.register_buffer("back2", torch.arange(1, channels, 2, dtype=torch.int32))

    def forward(self, first, second):
        if self.halves:
            return ShuffleInHalves.apply(first, second, *self.order.chunk(2), self.back1, self.back2)
        return Shuffle.apply(first, second, self.order, self.back1, self.back2)


class Block(nn.Module):
    def __init__(self, channels, halves=False):
        super().__init__()
        self.branch1, self.branch2 = (
            nn.Sequential(
                nn.Conv2d(channels, channels, 3, stride=2, padding=1, groups=channels, bias=False),
                nn.BatchNorm2d(channels),
                nn.Conv2d(channels, channels, 1, bias=False),
                nn.ReLU(inplace=True),
            )
            for _ in range(2)
        )
        self.shuffle = ChannelShuffle(2 * channels, halves)

    def forward(self, x):
        return self.shuffle(self.branch1(x), self.branch2(x))

    def plain(self, x):
        return nn.functional.channel_shuffle(torch.cat((self.branch1(x), self.branch2(x)), 1), 2)


torch.manual_seed(0)
for halves in (False, True):
    block = Block(6, halves)
    reference = copy.deepcopy(block)
    x = torch.randn(2, 6, 8, 8)
    x_npu = x.npu().requires_grad_()
    x.requires_grad_()
    weight = torch.randn(2, 12, 4, 4)

    expected = reference.plain(x)
    (expected * weight).sum().backward()
    output = block.npu()(x_npu)
    output = torch.cat(output, 1) if halves else output
    (output * weight.npu()).sum().backward()

    torch.testing.assert_close(output.cpu(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x_npu.grad.cpu(), x.grad, rtol=1e-3, atol=1e-4)
    for mine, other in zip(block.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), other.grad, rtol=1e-3, atol=1e-4)
