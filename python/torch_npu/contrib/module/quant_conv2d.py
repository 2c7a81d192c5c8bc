"""A convolution with quantised input and weight."""

from typing import Any

import torch
from torch import nn
from torch.nn.modules.utils import _pair

import torch_npu


class QuantConv2d(nn.Module):
    """torch_npu.npu_quant_conv2d. A quantiser makes the parameters, int8 weight, scale and int32 bias; set them before the first
    use."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        output_dtype: torch.dtype,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
        offset: bool = False,
        offset_x: int = 0,
        round_mode: str = "rint",
        input_dtype: torch.dtype | None = None,
        weight_dtype: torch.dtype | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if offset:
            raise ValueError("QuantConv2d has no offset; leave it out")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, _pair(kernel_size)
        self.stride, self.padding, self.dilation, self.groups = _pair(stride), _pair(padding), _pair(dilation), groups
        self.output_dtype, self.offset_x, self.round_mode = output_dtype, offset_x, round_mode
        self.input_dtype, self.weight_dtype = input_dtype, weight_dtype
        make = lambda *shape, dtype: nn.Parameter(torch.zeros(shape, dtype=dtype, device=device), False)  # noqa: E731
        self.weight = make(out_channels, in_channels // groups, *self.kernel_size, dtype=torch.int8)
        self.scale = make(out_channels, dtype=torch.float32)
        self.bias = make(out_channels, dtype=torch.int32) if bias else None

    def forward(self, quant_conv2d_input: torch.Tensor) -> torch.Tensor:
        return torch_npu.npu_quant_conv2d(
            quant_conv2d_input,
            self.weight,
            self.scale,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
            self.offset_x,
            self.round_mode,
            self.output_dtype,
            self.bias,
            None,
            self.input_dtype,
            self.weight_dtype,
        )
