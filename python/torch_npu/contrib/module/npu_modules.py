"""Dropout."""

import torch
from torch import nn

from ..function import npu_functional


class DropoutWithByteMask(nn.Module):
    """torch.nn.Dropout. max_seed is ignored; inplace=True is refused."""

    def __init__(self, p: float = 0.5, inplace: bool = False, max_seed: int = 1023) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a probability is 0 to 1, not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input1: torch.Tensor) -> torch.Tensor:
        return npu_functional.dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
