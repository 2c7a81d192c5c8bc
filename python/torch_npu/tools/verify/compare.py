"""Where two runs part: the first difference in the order of the computation.

found = compare(original, converted, tolerance=1e-4)
found.same, found.sentences, found.rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

_HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Comparison:
    same: bool
    sentences: list[str]
    rows: list[dict[str, Any]]  # step, kind, name, original, converted, difference, same


def compare(original: dict[str, Any], converted: dict[str, Any], tolerance: float) -> Comparison:
    rows: list[dict[str, Any]] = []
    told: list[str] = []
    for index, (one, other) in enumerate(zip(original["steps"], converted["steps"], strict=False), 1):
        if index == 1:  # later ones differ by what optimizers make of rounding: Adam scales gradients of almost zero up
            rows += _tensors(index, "parameter", one["parameters"], other["parameters"], tolerance)
        rows += _outputs(index, one, other, tolerance)
        rows += _losses(index, one, other, tolerance)
        rows += _gradients(index, one, other, tolerance)
    if len(original["steps"]) != len(converted["steps"]):
        told.append(f"the original made {len(original['steps'])} steps, the converted project {len(converted['steps'])}")
    if not original["steps"]:
        told.append("the original called neither backward() nor step() of an optimizer; there is nothing to compare")
    first = next((row for row in rows if not row["same"]), None)
    if first is not None:
        told.append(
            f"step {first['step']}: the first difference is the {first['kind']} {first['name']}: {first['original']} in the "
            f"original, {first['converted']} on npu ({first['difference']})"
        )
        others = [row for row in rows if not row["same"] and row["kind"] in ("loss", "gradient")]
        told.append(f"{len(others)} losses and gradients differ by more than the tolerance {tolerance:g}")
    return Comparison(not told, told, rows)


def _row(step: int, kind: str, name: str, one: Any, other: Any, difference: str, same: bool) -> dict[str, Any]:
    return {"step": step, "kind": kind, "name": name, "original": one, "converted": other, "difference": difference, "same": same}


def _losses(step: int, one: dict[str, Any], other: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    rows = []
    for index, (left, right) in enumerate(zip(one["losses"], other["losses"], strict=False), 1):
        apart = abs(left - right)
        same = apart <= tolerance * max(abs(left), 1.0) or left == right or (left != left and right != right)
        rows.append(_row(step, "loss", f"of backward() {index}", left, right, f"{apart:.3g}", same))
    if len(one["losses"]) != len(other["losses"]):
        rows.append(_row(step, "number", "of losses", len(one["losses"]), len(other["losses"]), "", False))
    return rows


def _gradients(step: int, one: dict[str, Any], other: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    # Backward visits the last layers first.
    reverse = dict(reversed(list(one["gradients"].items())))
    return _tensors(step, "gradient", reverse, other["gradients"], 10 * tolerance)


def _outputs(step: int, one: dict[str, Any], other: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    rows = []
    for (name, left), (twin, right) in zip(one["outputs"], other["outputs"], strict=False):
        rows.append(
            _tensor_row(step, "output of module", name if name == twin else f"{name} / {twin}", left, right, 10 * tolerance)
        )
    return rows


def _tensors(step: int, kind: str, left: dict[str, Any], right: dict[str, Any], tolerance: float) -> list[dict[str, Any]]:
    rows = [_tensor_row(step, kind, name, value, right[name], tolerance) for name, value in left.items() if name in right]
    rows += [_row(step, kind, name, "present", "missing", "", False) for name in left if name not in right]
    rows += [_row(step, kind, name, "missing", "present", "", False) for name in right if name not in left]
    return rows


def _tensor_row(step: int, kind: str, name: str, left: torch.Tensor, right: torch.Tensor, tolerance: float) -> dict[str, Any]:
    if left.shape != right.shape:
        return _row(step, kind, name, f"shape {tuple(left.shape)}", f"shape {tuple(right.shape)}", "", False)
    half = left.dtype in _HALVES or right.dtype in _HALVES
    wide = torch.complex128 if left.is_complex() else torch.float64
    one, other = left.to(wide).flatten(), right.to(wide).flatten()
    if one.numel() == 0:
        return _row(step, kind, name, "empty", "empty", "0", True)
    apart = (one - other).abs()
    apart[(one == other) | ((one != one) & (other != other))] = 0  # also infinities and NaN in both
    apart[apart != apart] = float("inf")
    finite = one.abs()[one.abs() < float("inf")]
    largest = float(finite.max()) if finite.numel() else 0.0
    allowed = (max(tolerance, 2e-2) if half else tolerance) * largest + 1e-6
    worst = int(apart.argmax())
    same = float(apart[worst]) <= allowed
    difference = f"{float(apart[worst]):.3g} at element {worst}, allowed {allowed:.3g}"
    return _row(step, kind, name, f"{one[worst].item():.6g}", f"{other[worst].item():.6g}", difference, same)
