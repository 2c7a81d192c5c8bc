"""The answer of the coverage command: one row per operator, dtype and layout, as table, JSON and HTML.

result = judge(record, title="train.py", outcome=outcome)
print(text(result))
write_text(path, as_html(result))
"""

from __future__ import annotations

import collections
import shutil
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from ..report import Cell, Section, Table, page
from .operators import operator_support
from .programs import Outcome
from .record import Calls, Key, Record
from .support import packet_support

ORDER = ("unsupported", "unknown", "fallback", "supported")
_WORDS = {"supported": "on npu", "fallback": "falls back", "unsupported": "missing", "unknown": "unknown"}
_KINDS = {"supported": "good", "fallback": "warning", "unsupported": "bad", "unknown": "bad"}


@dataclass(frozen=True)
class Row:
    operator: str
    dtype: str
    layout: str
    status: str  # of ORDER
    reason: str
    calls: int
    backward: int
    sites: list[str]  # most calls first
    nodes: list[str]
    shapes: str


@dataclass(frozen=True)
class Result:
    title: str
    how: str  # what was run or read
    rows: list[Row]
    host: int  # calls of tensors that the program keeps on the CPU, which are not judged
    outcome: Outcome | None = None
    counts: dict[str, int] = field(default_factory=dict)  # operators by status

    @property
    def missing(self) -> bool:
        return any(row.status in ("unsupported", "unknown") for row in self.rows)


def judge(record: Record, title: str, how: str, outcome: Outcome | None = None, everything: bool = False) -> Result:
    """everything: also operators of tensors that a program keeps on the CPU. A program that moves none is judged as a whole."""
    merged: dict[tuple[str, str, str], Calls] = collections.defaultdict(Calls)
    host = 0
    for key, calls in record.calls.items():
        if record.moved and not key.on_device and not everything:
            host += calls.count
            continue
        into = merged[key.operator, key.dtype, key.layout]
        into.count += calls.count
        into.backward += calls.backward
        into.sites.update(calls.sites)
        into.nodes |= calls.nodes
        into.shapes = into.shapes or calls.shapes
    rows = [_row(Key(*name, True), calls) for name, calls in merged.items()]
    rows.sort(key=lambda row: (ORDER.index(row.status), -row.calls, row.operator, row.dtype))
    worst: dict[str, str] = {}
    for row in rows:
        worst.setdefault(row.operator, row.status)
    counts = {status: list(worst.values()).count(status) for status in ORDER}
    return Result(title, how, rows, host, outcome, counts)


def _row(key: Key, calls: Calls) -> Row:
    if calls.sites:
        found = operator_support(key.operator, key.dtype or None, key.layout)
    else:  # a profile has no overloads
        found = packet_support(key.operator, key.dtype or None)
    sites = [site for site, _ in calls.sites.most_common()]
    nodes = sorted(calls.nodes)
    return Row(
        key.operator, key.dtype, key.layout, found.status, found.reason, calls.count, calls.backward, sites, nodes, calls.shapes
    )


def sentences(result: Result) -> list[str]:
    counts = result.counts
    total = sum(counts.values())
    parts = [f"{counts['supported']} on npu", f"{counts['fallback']} on the CPU (fallback)", f"{counts['unsupported']} missing"]
    if counts["unknown"]:
        parts.append(f"{counts['unknown']} unknown")
    found = [f"{total} operators: {', '.join(parts)}"]
    if result.host:
        found.append(f"{result.host} calls concern tensors that the program keeps on the CPU; --all lists them too")
    if result.outcome is not None:
        found.append(result.outcome.said + ("; the operators until then are listed" if result.outcome.ended == "failed" else ""))
    return found


def text(result: Result) -> str:
    width = max(100, shutil.get_terminal_size((160, 24)).columns)
    lines = [f"{result.title} ({result.how})", *sentences(result), ""]
    head = ("status", "operator", "dtype", "calls", "call site", "reason")
    rows = [head, *(_cells(row) for row in result.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    for row in rows:
        line = "  ".join(
            cell.rjust(size) if head[index] == "calls" else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(line.rstrip() if row[0] not in ("on npu",) else line[:width].rstrip())
    if result.outcome is not None and result.outcome.traceback:
        lines += ["", result.outcome.traceback.rstrip()]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    site = row.sites[0] if row.sites else ""
    if row.backward == row.calls and site:
        site += " (backward)"
    dtype = row.dtype if row.layout == "strided" else f"{row.dtype} {row.layout}".strip()
    return _WORDS[row.status], row.operator, dtype, str(row.calls), site, row.reason


def as_data(result: Result) -> dict[str, Any]:
    return {
        "version": 1,
        "torch": torch.__version__,
        "title": result.title,
        "how": result.how,
        "counts": result.counts,
        "host_calls": result.host,
        "outcome": asdict(result.outcome) if result.outcome is not None else None,
        "operators": [asdict(row) for row in result.rows],
    }


def as_html(result: Result) -> str:
    columns = ["status", "operator", "dtype", "layout", "calls", "in backward", "call sites", "shapes", "reason"]
    rows = [
        [Cell(_WORDS[row.status], _KINDS[row.status]), row.operator, row.dtype, row.layout, row.calls, row.backward,
         row.sites[:10], row.shapes, row.reason]
        for row in result.rows
    ]  # fmt: skip
    sections = [Section("Summary", [result.how, *sentences(result)]), Section("Operators", tables=[Table(columns, rows)])]
    if result.outcome is not None and result.outcome.traceback:
        sections.append(Section("The program failed", code=result.outcome.traceback))
    return page(f"Operators of {result.title} on npu", sections, as_data(result))
