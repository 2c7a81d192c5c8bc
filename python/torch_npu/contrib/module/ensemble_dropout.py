"""Dropout of fairseq."""

from typing import Any

import torch
from torch import nn

from ..._api_status import no_op


class NpuCachedDropout(nn.Dropout):
    """torch.nn.Dropout. For a list [shape, dtype, device] instead of a tensor it returns a uint8 mask of that shape, 1 for kept
    elements, or None if not training."""

    def __init__(self, p: float, module_name: str | None = None) -> None:
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x: Any) -> torch.Tensor | None:
        if isinstance(x, torch.Tensor):
            return super().forward(x)
        if not isinstance(x, list):
            raise TypeError(f"NpuCachedDropout takes a tensor or a list [shape, dtype, device], not {type(x).__name__}")
        shape, _, device = x
        if not self.training or self.p == 0:
            return None
        return (torch.rand(shape, device=device) >= self.p).to(torch.uint8)

    @classmethod
    @no_op("each call makes its own mask")
    def enable_dropout_ensemble(cls, model: nn.Module) -> None:
        """On hardware: makes the masks for all layers of a model in advance."""


NpuFairseqDropout = NpuPreGenDropout = NpuCachedDropout
