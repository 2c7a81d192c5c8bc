"""Cross entropy with smoothed labels."""

from typing import Any

import torch
from torch import nn


class LabelSmoothingCrossEntropy(nn.Module):
    """The mean cross entropy of pred [n, num_classes] with labels [n]; the other classes share smooth_factor of each label. The
    result is float32, or float64 for float64."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        if num_classes < 2 or not 0 <= smooth_factor <= 1:
            raise ValueError(
                "LabelSmoothingCrossEntropy needs two or more classes and a smooth_factor of 0 to 1, not "
                f"{num_classes} and {smooth_factor}"
            )
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if pred.dim() != 2 or target.shape != pred.shape[:1]:
            raise ValueError(f"pred is [n, classes] and target [n], not {list(pred.shape)} and {list(target.shape)}")
        return _SmoothedCrossEntropy.apply(pred, target.long().unsqueeze(1), self.on_value, self.off_value)


class _SmoothedCrossEntropy(torch.autograd.Function):
    """-mean(sum(labels log_softmax(x))), without the tensor of labels: `on` for the target, `off` for the other classes."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, target: torch.Tensor, on: float, off: float) -> torch.Tensor:
        log = torch.log_softmax(x, 1, dtype=_wide(x))
        ctx.save_for_backward(x, target)
        ctx.log, ctx.values = log, (on, off)
        return (log.sum() * off + log.gather(1, target).sum() * (on - off)) / -x.size(0)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, target = ctx.saved_tensors
        on, off = ctx.values
        scale = grad / -x.size(0)
        labels = torch.full_like(ctx.log, off).scatter_(1, target, on)
        if torch.is_grad_enabled():  # for gradients of gradients
            away = scale * (labels - labels.sum(1, keepdim=True) * torch.softmax(x, 1, dtype=_wide(x)))
        else:
            away = torch.ops.aten._log_softmax_backward_data(labels.mul_(scale), ctx.log, 1, ctx.log.dtype)
        return away.to(x.dtype), None, None, None


def _wide(x: torch.Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32
