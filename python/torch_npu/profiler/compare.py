"""python -m torch_npu.profiler.compare A B: lists operators and kernels that became slower from profile A to profile B.

    for change in compare("before", "after"): print(change)

Rows are operators (host self time) and kernels (device time). The largest increase comes first.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from .._commands import run
from . import names
from .folder import read_any
from .links import link
from .records import NotAProfile, Records, said


class Change(NamedTuple):
    kind: str  # operator or kernel
    name: str
    count_a: int
    count_b: int
    us_a: float
    us_b: float

    @property
    def slower_us(self) -> float:
        return self.us_b - self.us_a


def compare(a: str | Path, b: str | Path) -> list[Change]:
    one, other = _totals(read_any(a)), _totals(read_any(b))
    changes = []
    for kind, name in one.keys() | other.keys():
        count_a, time_a = one.get((kind, name), (0, 0))
        count_b, time_b = other.get((kind, name), (0, 0))
        changes.append(Change(kind, name, count_a, count_b, time_a / 1000, time_b / 1000))
    return sorted(changes, key=lambda change: (-change.slower_us, change.kind, change.name))


def _totals(records: Records) -> dict[tuple[str, str], tuple[int, int]]:
    totals: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for node in link(records).nodes:
        if node.operator.kind == "operator":
            row = totals["operator", node.operator.name]
            row[0] += 1
            row[1] += node.host_self
    for task in records.tasks:
        row = totals["kernel", names.shown(task)]
        row[0] += 1
        row[1] += task.end_ns - task.start_ns
    return {key: (row[0], row[1]) for key, row in totals.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu.profiler.compare", description="Lists operators and kernels that became slower."
    )
    parser.add_argument("a", type=Path, help="the earlier profile")
    parser.add_argument("b", type=Path, help="the later profile")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--most", type=int, default=20, help="rows to print")
    options = parser.parse_args(arguments)
    if options.most < 1:
        parser.error(f"argument --most must be at least 1, not {options.most}")
    try:
        changes = compare(options.a, options.b)
    except (NotAProfile, OSError) as error:
        print(f"compare: {said(error)}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps([{**change._asdict(), "slower_us": change.slower_us} for change in changes], indent=1))
        return 0
    print(f"{'slower (us)':>14} {'A (us)':>14} {'B (us)':>14} {'A calls':>8} {'B calls':>8}  name")
    for change in changes[: options.most]:
        print(
            f"{change.slower_us:14.1f} {change.us_a:14.1f} {change.us_b:14.1f} {change.count_a:8} {change.count_b:8}  "
            f"{change.kind} {change.name}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run("torch_npu.profiler.compare", main))
