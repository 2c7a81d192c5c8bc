"""Calls of operators in words: `self: float32[3, 4]/(4, 1) npu:0, alpha: 1`, and where Python made them."""

import torch

from .. import _C


def value(item):
    """A tensor as dtype, shape, strides and device; anything else as Python writes it."""
    if isinstance(item, torch.Tensor):
        shape, strides = list(item.shape), tuple(item.stride())
        return f"{str(item.dtype).removeprefix('torch.')}{shape}/{strides} {item.device}"
    if isinstance(item, list | tuple):
        return f"[{', '.join(map(value, item))}]"
    return repr(item)


def arguments(op, args, kwargs):
    names = [argument.name for argument in op._schema.arguments]
    given = [*zip(names, args, strict=False), *kwargs.items()]
    return ", ".join(f"{name}: {value(item)}" for name, item in given)


def results(result):
    if isinstance(result, tuple):
        return f"({', '.join(map(value, result))})"
    return value(result)


def caller():
    """The innermost Python line outside torch and torch_npu."""
    line = _C._python_location().partition(", by way of ")[0]
    return "the backward pass, or C++" if not line or "/torch_npu/" in line else line
