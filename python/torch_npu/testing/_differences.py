"""Compares tensors and numbers. The result is a sentence about the difference if it is too large, or None.

    number_problem(1.0, 2.0, prec=1e-4, allow_inf=False)     # "1.0 and 2.0 differ by 1, more than 0.0001"

Tensors are on the CPU and have the same shape. torch_npu.testing.testcase describes the rules.
"""

from __future__ import annotations

from typing import Any

import torch

_OUTLIERS = 10.0


def number_problem(x: Any, y: Any, prec: float, allow_inf: bool) -> str | None:
    if not allow_inf and torch.inf in (abs(x), abs(y)):
        return f"{x!r} and {y!r} are not finite; allow_inf=True compares them"
    if x == y or (x != x and y != y) or abs(x - y) <= prec:
        return None
    return f"{x!r} and {y!r} differ by {abs(x - y):g}, more than {prec:g}"


def tensor_problem(x: torch.Tensor, y: torch.Tensor, prec: float, allow_inf: bool) -> str | None:
    if not x.numel():
        return None
    x, y = _wide(x), _wide(y)
    if not allow_inf and (x.isinf().any() or y.isinf().any()):
        return "there are infinities; allow_inf=True compares them"
    apart = _differences(x, y)
    if bool((apart <= prec).all()):
        return None
    return f"{_worst(x, y, apart)} differ by {apart.max().item():g}, more than {prec:g}"


def rtol_problem(x: torch.Tensor, y: torch.Tensor, prec: float) -> str | None:
    if not x.numel():
        return None
    if x.dtype == torch.bool:
        prec = 0.0
    apart = _differences(x, y)
    larger = torch.maximum(_wide(x).abs().double(), _wide(y).abs().double())
    if x.dtype == torch.bfloat16:
        good = bool(((apart == 0) | (apart <= prec + prec * _wide(y).abs()) & apart.isfinite()).all())
    else:
        smallest = 6e-8 if x.dtype == torch.float16 else 1e-9
        good = _within(apart, prec) or _within((apart / (larger + smallest)).masked_fill(apart == 0, 0.0), prec)
    if good:
        return None
    count = int((apart > prec).sum())
    return f"{count} of {x.numel()} elements differ by more than {prec:g}; the most {_worst(x, y, apart)}"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """Converts to a dtype in which differences are exact, or almost."""
    if tensor.dtype.is_complex:
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.dtype.is_floating_point else tensor.long()


def _differences(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The absolute differences: 0 where both are equal or both are NaN, inf where only one is NaN or infinite."""
    x, y = _wide(x), _wide(y)
    apart = (x - y).abs().double()
    same = (x == y) | (x.isnan() & y.isnan())
    return apart.masked_fill(apart.isnan(), torch.inf).masked_fill(same, 0.0)


def _worst(x: torch.Tensor, y: torch.Tensor, apart: torch.Tensor) -> str:
    index = int(apart.argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(index), apart.shape)) if apart.dim() else ()
    return f"{x[place].item()!r} and {y[place].item()!r}" + (f" at {place}" if place else "")


def _within(error: torch.Tensor, prec: float) -> bool:
    """Whether all errors are at most prec, except for a share of prec of them, which are at most ten times prec."""
    error = error.nan_to_num(torch.inf, posinf=torch.inf)
    bad = error > prec
    return int(bad.sum()) <= prec * error.numel() and bool((error <= _OUTLIERS * prec).all())
