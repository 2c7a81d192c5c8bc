"""Activations of torch.nn under the names of the vendor's package."""

import torch
from torch import nn
from torch.nn import functional


class Mish(nn.Module):
    """torch.nn.Mish."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.mish(x)


class SiLU(nn.Module):
    """torch.nn.SiLU."""

    def __init__(self) -> None:
        super().__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.silu(x)


Swish = SiLU
