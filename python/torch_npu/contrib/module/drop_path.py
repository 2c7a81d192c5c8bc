"""Stochastic depth."""

import torch
from torch import nn

from ..._api_status import no_op


class NpuDropPath(nn.Module):
    """In training, samples of the batch are zero with the probability drop_prob, and divided by 1 - drop_prob otherwise."""

    def __init__(self, drop_prob: float | None = None) -> None:
        super().__init__()
        self.drop_prob = drop_prob or 0.0
        self.keep_prob = 1 - self.drop_prob

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.drop_prob == 0 or not self.training:
            return x
        kept = torch.rand((x.size(0),) + (1,) * (x.dim() - 1), device=x.device) < self.keep_prob
        return x * kept / self.keep_prob

    @classmethod
    @no_op("each call draws its own random numbers")
    def enable_droppath_ensemble(cls, model: nn.Module) -> None:
        """On hardware: draws the random numbers for all layers of a model in advance."""
