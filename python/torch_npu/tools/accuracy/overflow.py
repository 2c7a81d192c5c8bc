"""`msaccucmp overflow`: lists the operators of a folder of dump files that overflowed, in the order of their time.

An operator has overflowed if a floating-point output contains NaN or infinity and no input does. If only outputs were dumped,
every operator with such an output is listed."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from ..report import write_text
from .errors import CANNOT_WRITE, AccuracyError
from .folder import read_folder
from .runs import Op, Value


def is_finite(value: Value) -> bool:
    values = value.load()
    return values.dtype.kind not in "fc" or bool(np.isfinite(values).all())


def overflowed(op: Op) -> bool:
    return not all(map(is_finite, op.outputs)) and all(map(is_finite, op.inputs))


def summary(value: Value) -> str:
    values = value.load()
    if values.size == 0:
        return f"[Shape: {value.shape}] [Dtype: {value.type}] empty"
    with np.errstate(all="ignore"):
        numbers = f"[Max: {values.max()}] [Min: {values.min()}] [Mean: {values.mean(dtype=np.float64)}]"
    return f"[Shape: {value.shape}] [Dtype: {value.type}] {numbers}"


def overflow(path: Path, out: Path, count: int) -> tuple[str, int]:
    """Writes a text about the first `count` operators that overflowed to a file. Returns the text and the number of all such
    operators."""
    found = [op for op in read_folder(path).ops if overflowed(op)]
    lines = [f"[Overflow] Find [{len(found)}] overflow ops. Will show the top {min(count, len(found))}."]
    for place, op in enumerate(found[:count], 1):
        lines += [f"{'=' * 49}[{place}]{'=' * 50}", f"[{op.kind}] {op.name}", f" {op.path}"]
        for side, values in (("input", op.inputs), ("output", op.outputs)):
            lines += [f" {side} {value.name} [Format: {value.details.get('format', 'ND')}] {summary(value)}" for value in values]
    text = "\n".join(lines)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / f"overflow_summary_{time.strftime('%Y%m%d%H%M%S')}.txt", text + "\n")
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, f"{out} cannot be written: {error.strerror}") from None
    return text, len(found)
