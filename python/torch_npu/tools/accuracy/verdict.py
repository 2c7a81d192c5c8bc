"""Whether two tensors agree, by the precision of their data type.

    judge(mine, golden, "float16", "float32").state        # "pass", "warning" or "error"

The error of an element is measured in units of its type: `|mine - golden| / (eps * (|golden| + rms(golden)))`, with the eps of
the coarser type. The root mean square (rms) allows for cancellation within sums. It leaves out fill values, such as the large
numbers of an attention mask, because they would hide every error. An element that is NaN or infinite in one tensor must be the
same in the other. Integers and bools must be equal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .metrics import as_floats

# type -> (eps, largest error in units for "pass", largest error in units for "warning")
LIMITS: dict[str, tuple[float, float, float]] = {
    "float64": (2.0**-52, 1024, 1 << 20),
    "float32": (2.0**-23, 64, 1024),
    "float16": (2.0**-10, 4, 16),
    "bfloat16": (2.0**-7, 4, 16),
    "float8_e4m3fn": (2.0**-3, 1, 2),
    "float8_e5m2": (2.0**-2, 1, 2),
}
_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
STATES = ("pass", "warning", "error")
_FILL = 1 / 256
_SENTINEL = 1e30
_LOG2_BUCKETS = 24  # bins of the histogram: below 1 unit, 1 to 2, 2 to 4, ...


@dataclass(frozen=True)
class Judgement:
    state: str  # one of STATES
    units: float  # the largest error in units of the type; infinite if NaN or infinity is in one tensor only
    reason: str
    histogram: tuple[int, ...] = ()  # number of elements by log2 of their error in units

    @property
    def agrees(self) -> bool:
        return self.state == "pass"


def coarser(mine: str, golden: str) -> str | None:
    """The type with the larger eps; None if one of the types is not a floating-point type."""
    names = [_PARTS.get(name, name) for name in (mine, golden)]
    floating = [name for name in names if name in LIMITS]
    return max(floating, key=lambda name: LIMITS[name][0]) if len(floating) == 2 else None


def judge(mine: np.ndarray, golden: np.ndarray, my_type: str, golden_type: str) -> Judgement:
    left, right = as_floats(mine), as_floats(golden)
    kind = coarser(my_type, golden_type)
    if kind is None:
        differing = int((np.ascontiguousarray(mine).reshape(-1) != np.ascontiguousarray(golden).reshape(-1)).sum())
        if not differing:
            return Judgement("pass", 0.0, "")
        return Judgement("error", float(differing), f"{differing} of {left.size} elements differ; {my_type} must be equal")
    known = np.isfinite(left) & np.isfinite(right)
    same = known | (left == right) | (np.isnan(left) & np.isnan(right))
    if not same.all():
        return Judgement("error", np.inf, _unlike(left, right, ~same))
    if left.size and not known.any():
        return Judgement("warning", 0.0, "no element is finite in both tensors, so nothing was compared")
    left, right = left[known], right[known]
    eps, passing, warning = LIMITS[kind]
    with np.errstate(all="ignore"):
        scale = np.abs(right) + _rms(_without_fills(right, eps))
        errors = np.abs(left - right)
        units = np.where(errors == 0, 0, errors / np.where(scale > 0, scale * eps, np.finfo(np.float64).tiny))
        largest = float(units.max()) if units.size else 0.0
        counts = np.bincount(np.clip(np.log2(np.maximum(units, 0.5)) + 1, 0, _LOG2_BUCKETS - 1).astype(int))
    state = "pass" if largest <= passing else "warning" if largest <= warning else "error"
    reason = "" if state == "pass" else f"the largest error is {largest:.3g} units of {kind}; at most {passing:g} are allowed"
    return Judgement(state, largest, reason, tuple(int(count) for count in counts))


def _without_fills(values: np.ndarray, eps: float) -> np.ndarray:
    """The values without fill values. Fill values are clusters of values, equal up to 1 %, that are far beyond all others:
    negative and 256 times larger, or so large that the precision of the type is coarser than all others."""
    while values.size:
        sizes = np.abs(values)
        largest = sizes.max()
        is_fill = sizes >= 0.99 * largest
        others = sizes[~is_fill]
        rest = float(others.max()) if others.size else 0.0
        share = eps if (values[is_fill] > 0).any() else max(eps, _FILL)
        if not others.size or share * largest < rest or (rest == 0 and largest < _SENTINEL):
            return values
        values = values[~is_fill]
    return values


def _rms(values: np.ndarray) -> float:
    largest = float(np.abs(values).max()) if values.size else 0.0
    return largest * float(np.sqrt(np.square(values / largest).mean())) if largest else 0.0


def _unlike(left: np.ndarray, right: np.ndarray, where: np.ndarray) -> str:
    first = int(np.flatnonzero(where)[0])
    return (
        f"{int(where.sum())} elements are NaN or infinite in one tensor only; element {first} is {left[first]} and {right[first]}"
    )
