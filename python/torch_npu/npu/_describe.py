"""Describes calls of operators: `self: float32[3, 4]/(4, 1) npu:0, alpha: 1`, and the Python line of the call."""

from __future__ import annotations

from typing import Any

import torch

from .. import _C


def value(item: Any) -> str:
    """A tensor as dtype, shape, strides and device; anything else by repr()."""
    if isinstance(item, torch.Tensor):
        shape, strides = list(item.shape), tuple(item.stride())
        return f"{str(item.dtype).removeprefix('torch.')}{shape}/{strides} {item.device}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(value, item))}]"
    return repr(item)


def arguments(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    names = [argument.name for argument in op._schema.arguments]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    return ", ".join(f"{name}: {value(item)}" for name, item in given)


def results(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(map(value, result))})"
    return value(result)


def caller() -> str:
    """The innermost Python line outside of torch and torch_npu."""
    line = _C._python_location().partition(", by way of ")[0]
    return "the backward pass, or C++" if not line or "/torch_npu/" in line else line
