"""The CSV files of a comparison, with the columns of msaccucmp and the column Verdict at the end."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..report import write_text
from .compare import Item, Result, Row
from .errors import CANNOT_WRITE, AccuracyError
from .metrics import NAN
from .runs import Op, Value

_H5_COLUMNS = ["Index", "NPUDump", "NPUDumpPath", "GroundTruthPath", "DataType", "Shape"]
_BINARY_COLUMNS = [
    "Index",
    "OpType",
    "NPUDump",
    "DataType",
    "Address",
    "GroundTruth",
    "DataType",
    "Address",
    "TensorIndex",
    "Shape",
]
_MAPPING_COLUMNS = ["Index", "OpType", "NPUDump", "GroundTruth", "TensorIndex", "NPUDumpPath", "GroundTruthPath"]
_LEAST_COSINE = 0.95
_HALF_LARGEST = 65504.0


def h5_rows(result: Result, names: Sequence[str]) -> list[list[Any]]:
    """The header and the rows for two HDF5 files."""
    rows: list[list[Any]] = [[*_H5_COLUMNS, *names, "CompareFailReason", "Verdict"]]
    for index, item, row in _values(result):
        name = item.mine.name if item.mine else NAN
        if row is None:
            side = item.mine.path if item.mine else NAN
            other = item.golden.path if item.golden else NAN
            rows.append([index, name, side, other, NAN, NAN, *[NAN] * len(names), _why_no_rows(item), item.state])
            continue
        known = row.mine or row.golden
        assert known is not None
        paths = [value.path if value else NAN for value in (row.mine, row.golden)]
        numbers = [row.numbers[each] for each in names]
        rows.append([index, name, *paths, known.type, list(known.shape), *numbers, row.reason, _verdict(item, row)])
    return rows


def binary_rows(result: Result, names: Sequence[str], overflow: bool) -> list[list[Any]]:
    extra = ["OverFlow"] if overflow else []
    rows: list[list[Any]] = [[*_BINARY_COLUMNS, *extra, *names, "CompareFailReason", "Verdict"]]
    for index, item, row in _values(result):
        mine, golden = (op.name if op else NAN for op in (item.mine, item.golden))
        if row is None:
            blank = [NAN] * (len(extra) + len(names))
            rows.append([index, item.op.kind, mine, NAN, NAN, golden, NAN, NAN, NAN, NAN, *blank, _why_no_rows(item), item.state])
            continue
        known = row.mine or row.golden
        assert known is not None
        place = f"{item.op.name}:{row.side}:{row.place}"
        both = [mine, *_facts(row.mine), golden, *_facts(row.golden)]
        flags = [overflows(row.mine)] if overflow else []
        numbers = [row.numbers[each] for each in names]
        rows.append([index, item.op.kind, *both, place, list(known.shape), *flags, *numbers, row.reason, _verdict(item, row)])
    return rows


def _why_no_rows(item: Item) -> str:
    if item.mine and item.golden:
        return "neither dump has a tensor of this operator"
    return f"only {'NPUDump' if item.mine else 'GroundTruth'} has this operator"


def _verdict(item: Item, row: Row) -> str:
    return "inherited" if row.side == "output" and row.state == "error" and item.state == "inherited" else row.state


def _facts(value: Value | None) -> list[Any]:
    return [value.type, value.details.get("address", NAN)] if value else [NAN, NAN]


def overflows(value: Value | None) -> str:
    """YES if a float16 tensor contains infinity, NaN or the largest number of the type."""
    if value is None or value.type != "float16":
        return NAN
    values = np.abs(value.load().astype(np.float32))
    return "NO" if bool((values < _HALF_LARGEST).all()) else "YES"


def mapping_rows(result: Result) -> list[list[Any]]:
    rows: list[list[Any]] = [_MAPPING_COLUMNS]
    for index, item, row in _values(result):
        place = f"{item.op.name}:{row.side}:{row.place}" if row else NAN
        names = [op.name if op else NAN for op in (item.mine, item.golden)]
        rows.append([index, item.op.kind, *names, place, *(op.path if op else NAN for op in (item.mine, item.golden))])
    return rows


def _values(result: Result) -> Iterator[tuple[int, Item, Row | None]]:
    for index, item in enumerate(result.items):
        if not item.rows:
            yield index, item, None
        for row in item.rows:
            yield index, item, row


def write_csv(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    try:
        write_text(path, text.getvalue())
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, str(error.strerror)) from None


def filtered(result: Result) -> list[tuple[int, Item, Row]]:
    """The rows whose cosine is NaN or at most 0.95."""
    found = []
    for index, item, row in _values(result):
        text = row.numbers.get("CosineSimilarity", NAN) if row else NAN
        if row is not None and row.mine and row.golden and (text == NAN or float(text) <= _LEAST_COSINE):
            found.append((index, item, row))
    return found


def write_filtered(folder: Path, result: Result, rows: Sequence[Sequence[Any]]) -> int:
    """Writes `filtered_result.csv` and copies of the tensors in it. Returns the number of rows."""
    chosen = filtered(result)
    paths = {row.mine.path for _, _, row in chosen if row.mine}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_csv(folder / "filtered_result.csv", [rows[0], *(row for row in rows[1:] if row[2] in paths)])
        for _, _, row in chosen:
            for side, value in (("NPUDump", row.mine), ("GroundTruth", row.golden)):
                if value:
                    np.save(folder / f"{side}{value.path.replace('/', '.')}.npy", value.load())
    except OSError as error:
        raise AccuracyError(CANNOT_WRITE, f"{folder} cannot be written: {error.strerror or error}") from None
    return len(chosen)


def element_rows(mine: Value, golden: Value, lines: int) -> list[list[Any]]:
    """A row for each element: index, both values, absolute and relative error."""
    left, right = mine.load().reshape(-1), golden.load().reshape(-1)
    rows: list[list[Any]] = [["Index", "NPUDump", "GroundTruth", "AbsoluteError", "RelativeError"]]
    wide = np.complex128 if np.iscomplexobj(left) or np.iscomplexobj(right) else np.float64
    with np.errstate(all="ignore"):
        errors, sizes = np.abs(left.astype(wide) - right.astype(wide)), np.abs(right.astype(wide))
    for place in range(min(left.size, lines)):
        relative = errors[place] / sizes[place] if sizes[place] else NAN
        index = tuple(int(each) for each in np.unravel_index(place, mine.shape)) if mine.shape else ()
        rows.append([" ".join(map(str, index)), left[place], right[place], errors[place], relative])
    return rows


def top_elements(rows: Sequence[Sequence[Any]], count: int) -> list[Sequence[Any]]:
    order = sorted(rows[1:], key=lambda row: -float(row[3]) if row[3] == row[3] else -np.inf)
    return [rows[0], *order[:count]]


def described(op: Op) -> str:
    """A text such as `mm (number 12, module layer.0, train.py:8)`."""
    known = [f"number {op.number}", f"module {op.module}" if op.module else "", op.line]
    return f"{op.kind + ' ' if op.kind else ''}{op.name} ({', '.join(filter(None, known))})"
