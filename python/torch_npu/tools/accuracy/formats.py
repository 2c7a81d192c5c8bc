"""Converts the values of a tensor between memory formats of the device and plain ones.

    to_format(values, "NC1HWC0", "NCHW", (2, 20, 4, 4))      # AccuracyError if the conversion is unknown

A fractal format pads to blocks of 16. The shape in the plain format shows which elements are padding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .errors import INVALID_FORMAT, AccuracyError

Convert = Callable[[np.ndarray, Sequence[int]], np.ndarray]
_PLAIN = ("NCHW", "NHWC", "HWCN", "ND", "NCDHW", "NDHWC")


def _permuted(source: str, target: str) -> Convert:
    return lambda values, _: values.transpose([source.index(axis) for axis in target])


def _from_nc1hwc0(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """To NCHW."""
    n, c1, h, w, c0 = values.shape
    return values.transpose(0, 1, 4, 2, 3).reshape(n, c1 * c0, h, w)[:, : shape[1]]


def _from_fractal_z(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """(C1*H*W, N1, N0, C0) to NCHW."""
    n, c, h, w = shape
    c0, n0 = values.shape[-1], values.shape[-2]
    c1, n1 = math.ceil(c / c0), math.ceil(n / n0)
    parts = values.reshape(c1, h, w, n1, n0, c0).transpose(3, 4, 0, 5, 1, 2)
    return parts.reshape(n1 * n0, c1 * c0, h, w)[:n, :c]


def _from_fractal_nz(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """(..., N1, M1, M0, N0) to (..., M, N)."""
    *batch, n1, m1, m0, n0 = values.shape
    order = [*range(len(batch)), *(len(batch) + axis for axis in (1, 2, 0, 3))]
    parts = values.transpose(order).reshape(*batch, m1 * m0, n1 * n0)
    return parts[..., : shape[-2] if len(shape) > 1 else 1, : shape[-1]].reshape(tuple(shape))


def _from_ndc1hwc0(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """To NCDHW."""
    n, d, c1, h, w, c0 = values.shape
    return values.transpose(0, 2, 5, 1, 3, 4).reshape(n, c1 * c0, d, h, w)[:, : shape[1]]


_TO_PLAIN: dict[str, tuple[str, Convert]] = {
    "NC1HWC0": ("NCHW", _from_nc1hwc0),
    "FRACTAL_Z": ("NCHW", _from_fractal_z),
    "FRACTAL_NZ": ("ND", _from_fractal_nz),
    "NDC1HWC0": ("NCDHW", _from_ndc1hwc0),
}


def to_format(values: np.ndarray, source: str, target: str, shape: Sequence[int]) -> np.ndarray:
    """`shape` is the shape without padding, with the dimensions in the order of the plain format."""
    if source == target or (source in _PLAIN and target == "ND"):
        return values
    try:
        if source in _TO_PLAIN:
            plain, convert = _TO_PLAIN[source]
            return to_format(convert(values, shape), plain, target, shape) if plain != target else convert(values, shape)
        if set(source) == set(target) and len(source) == values.ndim:
            return _permuted(source, target)(values, shape)
        if source == "ND" and values.ndim == len(target) and target in _PLAIN:
            return values
    except (ValueError, IndexError) as error:
        reason = f"values of shape {list(values.shape)} do not fit the shape {list(shape)} ({error})"
        raise AccuracyError(INVALID_FORMAT, f"{source} cannot be converted to {target}: {reason}") from None
    raise AccuracyError(INVALID_FORMAT, f"there is no conversion from {source} with {values.ndim} dimensions to {target}")
