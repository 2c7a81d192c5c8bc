"""Stochastic depth."""

import torch
from torch import nn

from ..._offer import no_op


class NpuDropPath(nn.Module):
    """In training zeros for samples of the batch with the probability drop_prob, the others over 1 - drop_prob."""

    def __init__(self, drop_prob=None):
        super().__init__()
        self.drop_prob = drop_prob or 0.0
        self.keep_prob = 1 - self.drop_prob

    def forward(self, x):
        if self.drop_prob == 0 or not self.training:
            return x
        kept = torch.rand((x.size(0),) + (1,) * (x.dim() - 1), device=x.device) < self.keep_prob
        return x * kept / self.keep_prob

    @classmethod
    @no_op("each call draws its numbers when it needs them")
    def enable_droppath_ensemble(cls, model):
        """Would draw the numbers for all layers of a model ahead."""
