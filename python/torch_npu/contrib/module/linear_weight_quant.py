"""A linear layer with a quantised weight."""

from typing import Any

import torch
from torch import nn

import torch_npu


class LinearWeightQuant(nn.Module):
    """torch_npu.npu_weight_quant_batchmatmul with a weight [out_features, in_features] and scales and offsets [out_features],
    or with antiquant_group_size [out_features, groups]. A quantiser makes the parameters; set them before the first use."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        antiquant_offset: bool = False,
        quant_scale: bool = False,
        quant_offset: bool = False,
        antiquant_group_size: int = 0,
        inner_precise: int = 0,
        weight_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        make = lambda wanted: nn.Parameter(torch.zeros(out_features, device=device), False) if wanted else None  # noqa: E731
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, dtype=torch.int8, device=device), False)
        self.antiquant_scale = make(True)
        self.antiquant_offset = make(antiquant_offset)
        self.quant_scale, self.quant_offset = make(quant_scale), make(quant_offset)
        self.bias = make(bias)
        self.antiquant_group_size, self.inner_precise, self.weight_dtype = antiquant_group_size, inner_precise, weight_dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale, offset = (
            given.transpose(-1, -2) if given is not None and given.dim() == 2 else given
            for given in (self.antiquant_scale, self.antiquant_offset)
        )
        return torch_npu.npu_weight_quant_batchmatmul(
            x,
            self.weight.transpose(-1, -2),
            scale,
            offset,
            self.quant_scale,
            self.quant_offset,
            self.bias,
            self.antiquant_group_size,
            self.inner_precise,
            weight_dtype=self.weight_dtype,
        )
