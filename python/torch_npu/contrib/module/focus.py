"""The focus layer of YOLO."""

from typing import Any

import torch
from torch import nn


def autopad(k: Any, p: Any = None) -> Any:
    """The padding p, or by default the padding that keeps the size with a kernel k."""
    if p is not None:
        return p
    return k // 2 if isinstance(k, int) else [size // 2 for size in k]


class Conv(nn.Module):
    """Convolution, batch norm and, with act, a leaky ReLU."""

    def __init__(self, c1: int, c2: int, k: Any = 1, s: Any = 1, p: Any = None, g: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(c1, c2, k, s, autopad(k, p), groups=g, bias=False)
        self.bn = nn.BatchNorm2d(c2)
        self.act = nn.LeakyReLU(0.1, inplace=True) if act else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.bn(self.conv(x)))

    def fuseforward(self, x: torch.Tensor) -> torch.Tensor:
        """forward for a convolution that the batch norm was fused into."""
        return self.act(self.conv(x))


def fast_slice(x: torch.Tensor) -> list[torch.Tensor]:
    """The four images that have one pixel of each square of 2 x 2."""
    return [x[..., row::2, column::2] for column in (0, 1) for row in (0, 1)]


class Focus(nn.Module):
    """Conv of fast_slice(x), concatenated as channels."""

    def __init__(self, c1: int, c2: int, k: Any = 1, s: Any = 1, p: Any = None, g: int = 1, act: bool = True) -> None:
        super().__init__()
        self.conv = Conv(c1 * 4, c2, k, s, p, g, act)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(torch.cat(fast_slice(x), 1))
