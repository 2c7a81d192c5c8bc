"""Cross entropy with smoothed labels."""

import torch
from torch import nn

import torch_npu


class LabelSmoothingCrossEntropy(nn.Module):
    """The mean cross entropy of pred [n, num_classes] with labels [n]; the other classes share smooth_factor of each label."""

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        labels = torch_npu.npu_one_hot(target.int(), -1, pred.size(1), self.on_value, self.off_value)
        return torch_npu.npu_softmax_cross_entropy_with_logits(pred, labels.to(pred.dtype)).mean(0, dtype=torch.float32)
