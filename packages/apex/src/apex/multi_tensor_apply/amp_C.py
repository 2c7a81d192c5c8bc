"""The operators of NVIDIA's extension amp_C that torch has, on lists of tensors of any device. Others raise ImportError."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Lists = Sequence[Sequence[torch.Tensor]]


@torch.no_grad()
def multi_tensor_scale(chunk_size: int, overflow_buf: torch.Tensor, tensor_lists: Lists, scale: float) -> None:
    """out = in * scale, for lists [in, out]. Sets overflow_buf to 1 if an input is not finite."""
    inputs, outputs = (list(each) for each in tensor_lists)
    _flag(overflow_buf, inputs)
    for out, value in zip(outputs, torch._foreach_mul([each.float() for each in inputs], scale), strict=True):
        out.copy_(value)


@torch.no_grad()
def multi_tensor_axpby(
    chunk_size: int, overflow_buf: torch.Tensor, tensor_lists: Lists, a: float, b: float, arg_to_check: int = -1
) -> None:
    """out = a * x + b * y, for lists [x, y, out]. arg_to_check: 0 looks for overflows in x, 1 in y, -1 in both."""
    x, y, outputs = (list(each) for each in tensor_lists)
    _flag(overflow_buf, [*(x if arg_to_check != 1 else []), *(y if arg_to_check != 0 else [])])
    for one, other, out in zip(x, y, outputs, strict=True):
        out.copy_(a * one.float() + b * other.float())


@torch.no_grad()
def multi_tensor_l2norm(
    chunk_size: int, overflow_buf: torch.Tensor, tensor_lists: Lists, per_tensor: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of all tensors of the first list together, and with per_tensor also that of each."""
    tensors = list(tensor_lists[0])
    norms = torch.stack([norm.float() for norm in torch._foreach_norm([each.float() for each in tensors])])
    total = torch.linalg.vector_norm(norms).reshape(1)
    return total, norms if per_tensor else norms[:0]


def _flag(overflow_buf: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    if tensors:
        bad = torch.stack([~each.isfinite().all() for each in tensors]).any()
        overflow_buf.masked_fill_(bad.to(overflow_buf.device), 1)


def __getattr__(name: str) -> Any:
    if name.startswith("multi_tensor_"):
        raise ImportError(
            f"amp_C.{name} is a kernel of NVIDIA's package that is not offered: use the optimizers of apex.optimizers or torch.optim"
        )
    raise AttributeError(name)


