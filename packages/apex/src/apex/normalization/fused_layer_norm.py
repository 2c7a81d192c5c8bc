"""torch.nn.LayerNorm and torch.nn.RMSNorm as apex names them. The Mixed ones give the dtype of their weights."""

from __future__ import annotations

import numbers
from typing import Any

import torch
from torch.nn import functional


class FusedLayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm. memory_efficient changes nothing."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.weight is None:
            return fused_layer_norm(input, self.normalized_shape, self.eps)
        return fused_layer_norm_affine(input, self.weight, self.bias, self.normalized_shape, self.eps)


class FusedRMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm with eps 1e-5. memory_efficient changes nothing."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        memory_efficient: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.weight is None:
            return fused_rms_norm(input, self.normalized_shape, self.eps)
        return fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps)


class MixedFusedLayerNorm(FusedLayerNorm):
    """FusedLayerNorm whose result has the dtype of the weight."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, **options: Any) -> None:
        if not options.pop("elementwise_affine", True):
            raise RuntimeError("MixedFusedLayerNorm needs weights: use FusedLayerNorm for elementwise_affine=False")
        super().__init__(normalized_shape, eps, True, **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return mixed_dtype_fused_layer_norm_affine(input, self.weight, self.bias, self.normalized_shape, self.eps)


class MixedFusedRMSNorm(FusedRMSNorm):
    """FusedRMSNorm whose result has the dtype of the weight."""

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, **options: Any) -> None:
        if not options.pop("elementwise_affine", True):
            raise RuntimeError("MixedFusedRMSNorm needs weights: use FusedRMSNorm for elementwise_affine=False")
        super().__init__(normalized_shape, eps, True, **options)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return mixed_dtype_fused_rms_norm_affine(input, self.weight, self.normalized_shape, self.eps)


def fused_layer_norm(input: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False) -> Any:
    return functional.layer_norm(input, _shape(normalized_shape), eps=eps)


def fused_layer_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    normalized_shape: Any,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    weight, bias = weight.to(input.dtype), None if bias is None else bias.to(input.dtype)
    return functional.layer_norm(input, _shape(normalized_shape), weight, bias, eps)


def mixed_dtype_fused_layer_norm_affine(
    input: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    normalized_shape: Any,
    eps: float = 1e-6,
    memory_efficient: bool = False,
) -> torch.Tensor:
    return functional.layer_norm(input.to(weight.dtype), _shape(normalized_shape), weight, bias, eps)


def fused_rms_norm(input: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False) -> Any:
    return functional.rms_norm(input, _shape(normalized_shape), eps=eps)


def fused_rms_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    return functional.rms_norm(input, _shape(normalized_shape), weight.to(input.dtype), eps)


def mixed_dtype_fused_rms_norm_affine(
    input: torch.Tensor, weight: torch.Tensor, normalized_shape: Any, eps: float = 1e-6, memory_efficient: bool = False
) -> torch.Tensor:
    return functional.rms_norm(input.to(weight.dtype), _shape(normalized_shape), weight, eps)


def _shape(normalized_shape: Any) -> list[int]:
    return [int(normalized_shape)] if isinstance(normalized_shape, numbers.Integral) else list(normalized_shape)
