"""The ten numbers that msaccucmp gives for two tensors.

    given, reasons = measure(mine, golden, ["CosineSimilarity", "MaxAbsoluteError"])   # {"CosineSimilarity": "1.000000", ...}

Values are computed in float64. Relative errors skip elements whose golden value is zero. All numbers skip elements that are not
finite in one of the tensors; a reason gives their number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_EPSILON = float(np.finfo(np.float32).eps)
_SMALL = 0.001  # means and deviations below this are shown as 0
NAN = "NaN"


def _cosine(mine: np.ndarray, golden: np.ndarray) -> tuple[float, str]:
    if mine.size == 1:
        return 1.0, "the tensor is a scalar: its cosine similarity is 1 by definition"
    largest = max(np.abs(mine).max(), np.abs(golden).max())
    if largest == 0:
        return 1.0, ""
    left, right = mine / largest, golden / largest  # avoids overflow and underflow of the squares
    lengths = float(np.sqrt(left @ left) * np.sqrt(right @ right))
    if not mine.any() or not golden.any():
        return float("nan"), f"all values of {'NPUDump' if not mine.any() else 'GroundTruth'} are zero"
    return float(left @ right) / lengths if lengths else float("nan"), ""


def _relative(mine: np.ndarray, golden: np.ndarray) -> np.ndarray:
    known = np.abs(golden) > _EPSILON
    return np.where(known, np.abs(mine - golden) / np.where(known, np.abs(golden), 1), 0)


def _euclidean(mine: np.ndarray, golden: np.ndarray) -> float:
    length = float(np.linalg.norm(golden))
    return float(np.linalg.norm(mine - golden)) / length if length > _EPSILON else 0.0


def _divergence(mine: np.ndarray, golden: np.ndarray) -> float:
    left, right = _distribution(mine), _distribution(golden)
    found = float((left * np.log(left / right)).sum())
    return 0.0 if abs(found) < _EPSILON else found


def _distribution(values: np.ndarray) -> np.ndarray:
    width = values.max() - values.min()
    scaled = np.maximum((values - values.min()) / width if width else values, _EPSILON)
    return scaled / scaled.sum()


def _deviations(mine: np.ndarray, golden: np.ndarray) -> str:
    shown = [0.0 if abs(each) < _SMALL else each for each in (mine.mean(), mine.std(), golden.mean(), golden.std())]
    return "({:.3f};{:.3f}),({:.3f};{:.3f})".format(*shown)


Algorithm = Callable[[np.ndarray, np.ndarray], Any]
# In the order of msaccucmp's numbers 0 to 9.
ALGORITHMS: dict[str, Algorithm] = {
    "CosineSimilarity": _cosine,
    "MaxAbsoluteError": lambda mine, golden: np.abs(mine - golden).max(),
    "AccumulatedRelativeError": lambda mine, golden: _relative(mine, golden).sum(),
    "RelativeEuclideanDistance": _euclidean,
    "KullbackLeiblerDivergence": _divergence,
    "StandardDeviation": _deviations,
    "MeanAbsoluteError": lambda mine, golden: np.abs(mine - golden).mean(),
    "RootMeanSquareError": lambda mine, golden: np.sqrt(np.square(mine - golden).mean()),
    "MaxRelativeError": lambda mine, golden: _relative(mine, golden).max(),
    "MeanRelativeError": lambda mine, golden: _relative(mine, golden).mean(),
}


def text_of(number: Any) -> str:
    if isinstance(number, str):
        return number
    return NAN if np.isnan(number) else f"{float(number):.6f}"


def as_floats(values: np.ndarray) -> np.ndarray:
    """Flat float64 values. A complex number gives its real and its imaginary part."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if np.iscomplexobj(flat):
        flat = flat.view(flat.real.dtype)
    with np.errstate(all="ignore"):
        return flat.astype(np.float64)


def measure(mine: np.ndarray, golden: np.ndarray, algorithms: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The numbers as text, by algorithm, and the reasons for numbers that are NaN. The tensors must have the same number of
    elements."""
    left, right = as_floats(mine), as_floats(golden)
    if left.size == 0:
        return dict.fromkeys(algorithms, NAN), ["the tensors are empty"]
    known = np.isfinite(left) & np.isfinite(right)
    reasons = []
    if not known.all():
        reasons.append(f"{int((~known).sum())} of {known.size} elements are NaN or infinite and are left out")
        left, right = left[known], right[known]
        if left.size == 0:
            return dict.fromkeys(algorithms, NAN), reasons
    found = {}
    with np.errstate(all="ignore"):
        for name in algorithms:
            number = ALGORITHMS[name](left, right)
            if isinstance(number, tuple):
                number, reason = number
                reasons += [reason] if reason else []
            found[name] = text_of(number)
    return found, reasons
