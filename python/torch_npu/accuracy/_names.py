"""Names of called functions as msprobe writes them: Functional.linear, Torch.matmul, Tensor.add."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# Functions that compute nothing: they move, name or query tensors.
_LEFT_OUT = {
    "__get__", "__set__", "__delete__", "__deepcopy__", "__repr__", "__format__", "__reduce_ex__", "__len__", "__hash__",
    "backward", "cpu", "cuda", "detach", "detach_", "device", "has_names", "item", "is_pinned", "npu", "numpy", "pin_memory",
    "register_hook", "requires_grad_", "retain_grad", "set_", "share_memory_", "to", "tolist", "type", "untyped_storage",
}  # fmt: skip


@functools.cache
def name_of(function: Callable[..., Any]) -> str | None:
    """The name of a function; None if its calls are not recorded."""
    base = getattr(function, "__name__", "")
    if not base or base in _LEFT_OUT:
        return None
    known = torch.overrides.resolve_name(function) or ""
    if known.startswith("torch.nn.functional.") or known.startswith("torch._C._nn."):
        return f"Functional.{base}"
    if known.startswith(("torch.Tensor.", "torch._C.TensorBase.")):
        return f"Tensor.{base}"
    return f"Torch.{base}" if known.startswith("torch.") else None
