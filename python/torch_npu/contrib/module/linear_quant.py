"""A linear layer with quantised input and weight."""

from typing import Any

import torch
from torch import nn

import torch_npu


class LinearQuant(nn.Module):
    """torch_npu.npu_quant_matmul with a weight [out_features, in_features]. Input and weight are int8, or int32 that holds eight
    four-bit integers. A quantiser makes the parameters; set them before the first use:

    layer.weight.data, layer.scale.data = weight.npu(), scale.npu()"""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        offset: bool = False,
        pertoken_scale: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        output_dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features, self.output_dtype = in_features, out_features, output_dtype
        make = lambda *shape, dtype: nn.Parameter(torch.zeros(shape, dtype=dtype, device=device), False)  # noqa: E731
        self.weight = make(out_features, in_features, dtype=torch.int8)
        self.scale = make(out_features, dtype=torch.float32)
        self.offset = make(out_features, dtype=torch.float32) if offset else None
        self.pertoken_scale = make(out_features, dtype=torch.float32) if pertoken_scale else None
        self.bias = make(out_features, dtype=torch.int32) if bias else None

    def forward(self, linear_quant_input: torch.Tensor) -> torch.Tensor:
        if linear_quant_input.dtype != self.weight.dtype:
            raise ValueError(
                f"input and weight are both int8 or both int32, not {linear_quant_input.dtype} and {self.weight.dtype}"
            )
        return torch_npu.npu_quant_matmul(
            linear_quant_input,
            self.weight.transpose(-1, -2),
            self.scale,
            offset=self.offset,
            pertoken_scale=self.pertoken_scale,
            bias=self.bias,
            output_dtype=self.output_dtype,
        )
