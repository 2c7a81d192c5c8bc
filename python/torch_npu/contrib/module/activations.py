"""Activations that torch.nn has too."""

from torch import nn
from torch.nn import functional


class Mish(nn.Module):
    """torch.nn.Mish."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return functional.mish(x)


class SiLU(nn.Module):
    """torch.nn.SiLU."""

    def __init__(self):
        super().__init__()

    def forward(self, x):
        return functional.silu(x)


Swish = SiLU
