"""SoftmaxCrossEntropyLoss: torch.nn.functional.cross_entropy as apex calls it."""

from __future__ import annotations

import torch
from torch.nn import functional


class SoftmaxCrossEntropyLoss:
    """SoftmaxCrossEntropyLoss.apply(logits, labels): one loss per row, zero for labels that are padding_idx.

    half_to_float: the losses of float16 logits are float32."""

    @staticmethod
    def apply(
        logits: torch.Tensor,
        labels: torch.Tensor,
        smoothing: float = 0.0,
        padding_idx: int = 0,
        half_to_float: bool = False,
    ) -> torch.Tensor:
        losses = functional.cross_entropy(logits.float(), labels, reduction="none", label_smoothing=smoothing)
        losses = losses.masked_fill(labels == padding_idx, 0)
        return losses if half_to_float else losses.to(logits.dtype)
