"""Modulated deformable convolution (DCN v2)."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn.modules.utils import _pair

import torch_npu


class ModulatedDeformConv2dFunction(torch.autograd.Function):
    """Deformable convolution in float32. offset_ori, [n, 2 * groups * taps, height, width], has the offsets (y, x) of each tap;
    the samples are multiplied by mask. The last two arguments are indices that reorder the offsets to all x before all y, and
    back."""

    @staticmethod
    def forward(
        ctx: Any,
        input_tensor: torch.Tensor,
        offset_ori: torch.Tensor,
        mask: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        with_bias: bool = False,
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        sort_index_for_npu_fp: torch.Tensor | None = None,
        sort_index_for_npu_bp: torch.Tensor | None = None,
    ) -> torch.Tensor:
        order = _x_first(offset_ori.size(1), offset_ori.device) if sort_index_for_npu_fp is None else sort_index_for_npu_fp
        ctx.options = stride, padding, dilation, groups, deformable_groups
        ctx.with_bias = with_bias
        ctx.save_for_backward(input_tensor, offset_ori, mask, weight, bias, order)
        return _convolve(input_tensor, offset_ori, mask, weight, bias, order, *ctx.options)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *tensors, order = ctx.saved_tensors
        with torch.enable_grad():
            tensors = [None if tensor is None else tensor.detach().requires_grad_() for tensor in tensors]
            out = _convolve(*tensors, order, *ctx.options)  # type: ignore[call-arg]
        wanted = tensors if ctx.with_bias else tensors[:4]
        grads = list(torch.autograd.grad(out, wanted, grad_output)) + [None] * (5 - len(wanted))
        return (*grads, *[None] * 8)


class ModulatedDeformConv(nn.Module):
    """A modulated deformable convolution. With pack, the layer conv_offset, initialised to zero, computes offsets and masks from
    the input. Without it the input is a tuple (x, offset, mask)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        deformable_groups: int = 1,
        bias: bool = True,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, _pair(kernel_size)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups, self.deformable_groups = groups, deformable_groups
        self.with_bias, self.pack = bias, pack
        taps = self.kernel_size[0] * self.kernel_size[1]
        self.split_num = deformable_groups * 2 * taps
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels // groups, *self.kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        if pack:
            self.conv_offset = nn.Conv2d(
                in_channels, deformable_groups * 3 * taps, self.kernel_size, _pair(stride), _pair(padding), _pair(dilation)
            )
        self.init_param()

    def init_param(self) -> None:
        """Initialises the weights uniformly and the rest with zeros."""
        bound = 1 / math.sqrt(self.in_channels * self.kernel_size[0] * self.kernel_size[1])
        nn.init.uniform_(self.weight, -bound, bound)
        if self.with_bias:
            nn.init.zeros_(self.bias)
        if self.pack:
            nn.init.zeros_(self.conv_offset.weight)
            nn.init.zeros_(self.conv_offset.bias)

    def forward(self, x: Any) -> torch.Tensor:
        if self.pack:
            out = self.conv_offset(x)
            offset, mask = out[:, : self.split_num], torch.sigmoid(out[:, self.split_num :])
        else:
            x, offset, mask = x
        return ModulatedDeformConv2dFunction.apply(
            x, offset, mask, self.weight, self.bias, self.with_bias, self.stride, self.padding, self.dilation, self.groups,
            self.deformable_groups,
        )  # fmt: skip


DCNv2 = ModulatedDeformConv


def _x_first(count: int, device: torch.device) -> torch.Tensor:
    order = torch.arange(count, device=device)
    return torch.cat((order[1::2], order[::2]))


def _convolve(
    x: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    order: torch.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    deformable_groups: int,
) -> torch.Tensor:
    stride, padding, dilation = _pair(stride), _pair(padding), _pair(dilation)
    moves = torch.cat((offset.index_select(1, order), mask), 1)
    return torch_npu.npu_deformable_conv2d(
        x,
        weight,
        moves,
        bias,
        kernel_size=list(weight.shape[2:]),
        stride=[1, 1, *stride],
        padding=[padding[0], padding[0], padding[1], padding[1]],
        dilation=[1, 1, *dilation],
        groups=groups,
        deformable_groups=deformable_groups,
    )[0]
