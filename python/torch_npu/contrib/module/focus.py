"""The focus layer of YOLO."""

import torch
from torch import nn


def autopad(k, p=None):
    """The padding p, or that which keeps the size for a kernel k."""
    if p is not None:
        return p
    return k // 2 if isinstance(k, int) else [size // 2 for size in k]


class Conv(nn.Module):
    """Convolution, batch norm and, if act, a leaky ReLU."""

    def __init__(self, c1, c2, k=1, s=1, p=None, g=1, act=True):
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k, p), groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.LeakyReLU(0.1, inplace=True) if act else nn.Identity()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))

    def fuseforward(self, x):
        """forward, with the batch norm already in the convolution."""
        return self.act(self.conv(x))


def fast_slice(x):
    """The four quarters of an image's pixels: of each square of four one."""
    return [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]


class Focus(nn.Module):
    """Conv of the quarters of an image, one behind the other as channels."""

    def __init__(self, c1, c2, k=1, s=1, p=None, g=1, act=True):
        super().__init__()
        self.conv = Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x):
        return self.conv(torch.cat(fast_slice(x), 1))
