"""Dropout."""

from torch import nn

from ..function import npu_functional


class DropoutWithByteMask(nn.Module):
    """torch.nn.Dropout; max_seed is not used, nor offered is inplace."""

    def __init__(self, p=0.5, inplace=False, max_seed=1023):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a probability is 0 to 1, not {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input1):
        return npu_functional.dropout_with_byte_mask(input1, self.p, self.training, self.inplace)
