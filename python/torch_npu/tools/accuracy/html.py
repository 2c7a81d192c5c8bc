"""The HTML page of a comparison: the result, the tree of modules, the worst operators, histograms of errors."""

from __future__ import annotations

import collections
import math
from typing import Any

from ..report import Cell, Node, Section, Table, page
from .compare import Item, Result, Row
from .tables import described

_KINDS = {"pass": "good", "warning": "warning", "error": "bad", "inherited": "warning", "unmatched": "plain"}
_SHOWN = 50
_BLOCKS = " ▁▂▃▄▅▆▇█"


def answer(result: Result) -> list[str]:
    """Sentences that say whether the runs agree, and name the first wrong operator."""
    counts = ", ".join(f"{count} {state}" for state, count in result.counts.items() if count)
    first = result.first
    if first is None:
        matched = sum(result.counts.values()) - result.counts["unmatched"]
        told = "the runs agree" if matched else "no operator of one run has a partner in the other; are they the same model?"
        if 0 < matched < result.counts["unmatched"]:
            told = "the operators that both runs have agree, but most operators have no partner; are they the same model?"
        return [f"{told} ({counts})"]
    known = "its inputs agree and its outputs do not"
    if first.state == "inherited":
        known = "its inputs differ already; give both runs the same seed, weights and data"
    reasons = [f"{row.side} {name_of(row)}: {row.reason}" for row in first.rows if row.state == "error"]
    return [f"the first wrong operator is {described(first.op)}: {known}", *reasons[:4], f"operators: {counts}"]


def name_of(row: Row) -> str:
    value = row.mine or row.golden
    return value.name if value else str(row.place)


def data(result: Result) -> dict[str, Any]:
    """The data of the page, for programs that read it."""
    first = result.first
    return {
        "version": 1,
        "mine": str(result.mine.path),
        "golden": str(result.golden.path),
        "agrees": result.agrees,
        "counts": result.counts,
        "first": _item(first) if first else None,
        "operators": [_item(item) for item in result.items],
        "modules": modules(result),
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "name": item.op.name,
        "number": item.op.number,
        "golden_number": item.golden.number if item.golden else None,
        "module": item.op.module,
        "line": item.op.line,
        "state": item.state,
        "units": item.worst if math.isfinite(item.worst) else "inf",
        "tensors": [
            {
                "side": row.side,
                "name": name_of(row),
                "state": row.state,
                "numbers": row.numbers,
                "reason": row.reason,
                "histogram": list(row.judgement.histogram) if row.judgement else [],
            }
            for row in item.rows
        ],
    }


def modules(result: Result) -> dict[str, dict[str, int]]:
    """The operators of each module and of the modules in it, by state, in the order of the run. The module "" contains all."""
    found: dict[str, collections.Counter[str]] = {"": collections.Counter()}
    for item in result.items:
        parts = item.op.module.split(".") if item.op.module else []
        for end in range(len(parts) + 1):
            found.setdefault(".".join(parts[:end]), collections.Counter())[item.state] += 1
    return {name: dict(counts) for name, counts in found.items()}


def build(result: Result) -> str:
    worst = sorted((item for item in result.items if item.rows), key=lambda item: -item.worst)[:_SHOWN]
    sections = [
        Section("Result", answer(result)),
        Section("Modules", ["Operators by state. A module is open if an operator in it is wrong."], tree=_module_tree(result)),
        Section(
            "Worst operators", ["Errors are in units of the data type, as docs/accuracy.md explains."], [_worst_table(worst)]
        ),
        Section(
            "Errors of the worst operators",
            ["Elements by their error: below 1 unit, 1 to 2, 2 to 4, and so on."],
            [_histograms(worst)],
        ),
        Section("All operators, in the order of the run", [], [_all_table(result)]),
    ]
    return page(f"{result.mine.path.name} against {result.golden.path.name}", sections, data(result))


def _module_tree(result: Result) -> Node:
    """The tree of modules. Each module shows its operators that did not pass."""
    nodes: dict[str, Node] = {}
    for name, counts in modules(result).items():
        outer, _, last = name.rpartition(".")
        kind = "bad" if counts.get("error") else "plain"
        note = ", ".join(f"{counts[state]} {state}" for state in _KINDS if counts.get(state))
        nodes[name] = Node(last or "(all)", kind, note, kind == "bad")
        if name:
            nodes[outer].children.append(nodes[name])
    for item in result.items:
        if item.state != "pass":
            text = f"operator {item.op.number}: {item.op.name}"
            nodes[item.op.module or ""].children.append(Node(text, _KINDS[item.state], item.state))
    return nodes[""]


def _units(item: Item) -> Any:
    return round(item.worst, 3) if math.isfinite(item.worst) else "inf"


def _worst_table(worst: list[Item]) -> Table:
    rows = [
        [item.op.number, item.op.name, item.op.module, Cell(item.state, _KINDS[item.state]), _units(item), item.op.line]
        for item in worst
    ]
    return Table(["number", "operator", "module", "state", "largest error", "line"], rows)


def _histograms(worst: list[Item]) -> Table:
    rows = []
    for item in worst[:20]:
        for row in item.rows:
            if row.side == "output" and row.judgement and any(row.judgement.histogram):
                counts = row.judgement.histogram
                rows.append([item.op.number, item.op.name, name_of(row), bars(counts), list(map(str, counts))])
    return Table(["number", "operator", "output", "shares", "elements"], rows)


def bars(counts: tuple[int, ...]) -> str:
    """A bar chart with one character for each count, on a logarithmic scale."""
    largest = math.log2(1 + max(counts))
    return "".join(_BLOCKS[math.ceil(math.log2(1 + count) / largest * (len(_BLOCKS) - 1))] for count in counts)


def _all_table(result: Result) -> Table:
    rows = []
    for item in result.items:
        told = [f"{row.side} {name_of(row)}: {row.reason}" for row in item.rows if row.reason and row.state != "pass"]
        rows.append([item.op.number, item.op.name, item.op.module, Cell(item.state, _KINDS[item.state]), _units(item), told])
    return Table(["number", "operator", "module", "state", "largest error", "reasons"], rows)
