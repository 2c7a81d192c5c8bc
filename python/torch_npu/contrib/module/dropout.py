"""Dropout under its old names."""

import torch
from torch import nn

import torch_npu


class DropoutV2(nn.Module):
    """torch.nn.Dropout. max_seed is ignored: torch.manual_seed seeds the generator. inplace=True writes to the input."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 1023) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a probability is 0 to 1, not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return x
        y, _ = torch_npu._npu_dropout(x, self.p)
        return x.copy_(y) if self.inplace else y

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
