"""Dropout of fairseq."""

import torch
from torch import nn

from ..._offer import no_op


class NpuCachedDropout(nn.Dropout):
    """torch.nn.Dropout. Instead of a tensor it takes a list [shape, dtype, device] too, and gives a mask of that shape, uint8
    with 1 for what stays; None outside of training."""

    def __init__(self, p, module_name=None):
        super().__init__(p)
        self.module_name = module_name

    def forward(self, x):
        if isinstance(x, torch.Tensor):
            return super().forward(x)
        if not isinstance(x, list):
            raise TypeError(f"NpuCachedDropout takes a tensor or a list [shape, dtype, device], not {type(x).__name__}")
        shape, _, device = x
        if not self.training or self.p == 0:
            return None
        return (torch.rand(shape, device=device) >= self.p).to(torch.uint8)

    @classmethod
    @no_op("each call makes its mask when it needs it")
    def enable_dropout_ensemble(cls, model):
        """Would make the masks for all layers of a model ahead."""


NpuFairseqDropout = NpuCachedDropout
