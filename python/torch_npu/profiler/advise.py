"""python -m torch_npu.profiler.advise FOLDER: prints the causes of lost time of a profiled program, the most costly first.

    python -m torch_npu.profiler.advise traces                     # text
    python -m torch_npu.profiler.advise traces --json              # for programs
    python -m torch_npu.profiler.advise traces --html report.html  # one page: findings, timeline, flame graph, tables

FOLDER is a result of tensorboard_trace_handler, torch.npu.profile, torch_npu.profile or libmsprofiler.so, or a folder that
contains results; the newest result is read. FOLDER may also be a trace of torch.profiler, or a folder of such traces."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._commands import run
from ..tools.report import Section, Table, page, write_text
from ..tools.report.figures import Frame, flame, timeline
from . import names
from .findings import Finding, examine
from .folder import find_raw, read_found
from .links import Calls, Node, link
from .records import NotAProfile, Records, said

_MOST_BARS = 3000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_npu.profiler.advise", description="Prints the causes of lost time of a profiled program."
    )
    parser.add_argument("folder", type=Path, help="the result of a profiler, or a trace of torch.profiler")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    options = parser.parse_args(arguments)
    try:
        source = find_raw(options.folder)
        records = read_found(source)
        found = examine(records)
        if options.html:
            write_page(options.html, records, found, str(source))
    except (NotAProfile, OSError) as error:
        print(f"advise: {said(error)}", file=sys.stderr)
        return 1
    print(f"profile: {source}", file=sys.stderr)  # the newest one, if there are several
    if options.json:
        print(json.dumps(summary(records, found), indent=1))
    else:
        print(text(records, found))
    if options.html:
        print(f"page: {options.html.resolve()}", file=sys.stderr)
    return 0


def _count_of_operators(records: Records) -> int:
    """The number of operators, without ranges of the user and Python functions."""
    return sum(operator.kind == "operator" for operator in records.operators)


def summary(records: Records, found: list[Finding]) -> dict[str, Any]:
    start, end = records.span()
    return {
        "version": 1,
        "duration_us": (end - start) / 1000,
        "tasks": len(records.tasks),
        "operators": _count_of_operators(records),
        "findings": [asdict(finding) for finding in found],
    }


def text(records: Records, found: list[Finding]) -> str:
    start, end = records.span()
    head = f"{(end - start) / 1e6:.3f} ms, {_count_of_operators(records)} operators, {len(records.tasks)} tasks of devices"
    lines = [head, *_longest_kernels(records)]
    if not found:
        return "\n".join([*lines, "no cause of lost time was found"])
    return "\n".join([*lines, *(f"{number:2}. {finding.text()}" for number, finding in enumerate(found, 1))])


def _longest_kernels(records: Records, most: int = 3) -> list[str]:
    rows = _kernels(records).rows
    total = sum(row[3] for row in rows)
    if not total:
        return []
    shares = ", ".join(f"{row[0]} {100 * row[3] / total:.0f} %" for row in rows[:most])
    return [f"time of devices: {total / 1000:.3f} ms, of it {shares}"]


def write_page(path: Path, records: Records, found: list[Finding], source: str) -> None:
    calls = link(records)
    rows = [[finding.kind, finding.title, round(finding.cost_us / 1000, 3), finding.count, finding.advice, finding.lines]
            for finding in found]  # fmt: skip
    start, end = records.span()
    sections = [
        Section("", [f"{source}: {(end - start) / 1e6:.3f} ms, {len(records.tasks)} tasks of devices."]),
        Section("Findings", [] if found else ["No cause of lost time was found."],
                [Table(["kind", "finding", "cost (ms)", "count", "what to do", "where"], rows)]),
        Section("Timeline", [f"The {_MOST_BARS} longest bars. Hover over a bar to name it."], figure=timeline(_tracks(records))),
        Section("Flame graph", ["Time on the host by operator and the operators that it calls."], figure=flame(_frames(calls))),
        Section("Kernels", [], [_kernels(records)]),
        Section("Operators", [], [_operators(calls)]),
    ]  # fmt: skip
    write_text(path, page("Profile", sections, data=summary(records, found)))


def _tracks(records: Records) -> list[tuple[str, list[tuple[float, float, str]]]]:
    tracks: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    rows: list[tuple[str, int, int, str]] = [
        ("Steps", step.start_ns, step.end_ns, f"step {step.number}") for step in records.steps
    ]
    rows += [(f"Thread {row.thread}", row.start_ns, row.end_ns, row.name) for row in _outermost(records)]
    rows += [(f"NPU {task.device} stream {task.stream}", task.start_ns, task.end_ns, names.shown(task)) for task in records.tasks]
    rows.sort(key=lambda row: row[1] - row[2])
    base = records.span()[0]  # a float of microseconds since 1970 would lose digits
    for track, start, end, name in rows[:_MOST_BARS]:
        tracks[track].append(((start - base) / 1000, (end - base) / 1000, name))
    return sorted(tracks.items())


def _outermost(records: Records) -> list[Any]:
    """Operators that no other operator of their thread contains."""
    result: list[Any] = []
    ends: dict[int, int] = {}
    for row in sorted((row for row in records.operators if row.kind == "operator"), key=lambda row: (row.start_ns, -row.end_ns)):
        if row.end_ns > ends.get(row.thread, 0):
            ends[row.thread] = row.end_ns
            result.append(row)
    return result


def _frames(calls: Calls) -> Frame:
    root = Frame("all")

    def add(parent: Frame, node: Node, depth: int) -> None:
        frame = parent.child(node.operator.name)
        frame.value += node.host_total / 1000
        if depth < 60:
            for child in node.children:
                add(frame, child, depth + 1)

    for node in calls.nodes:
        if node.parent is None:
            root.value += node.host_total / 1000
            add(root, node, 0)
    return root


def _kernels(records: Records) -> Table:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for task in records.tasks:
        groups[names.shown(task), names.core(task)].append(task.end_ns - task.start_ns)
    rows = [[*key, len(times), round(sum(times) / 1000, 3), round(max(times) / 1000, 3)] for key, times in groups.items()]
    return Table(["kernel", "core (by its family)", "count", "total (us)", "longest (us)"], sorted(rows, key=lambda row: -row[3]))


def _operators(calls: Calls) -> Table:
    groups: dict[str, list[float]] = {}
    for node in calls.nodes:
        if node.operator.kind != "python":
            row = groups.setdefault(node.operator.name, [0, 0, 0, 0])
            for place, value in enumerate((1, node.host_self / 1000, node.host_total / 1000, node.device_total / 1000)):
                row[place] += value
    rows = [[name, int(row[0]), *(round(value, 3) for value in row[1:])] for name, row in groups.items()]
    columns = ["operator", "count", "host self (us)", "host total (us)", "device total (us)"]
    return Table(columns, sorted(rows, key=lambda row: -row[2]))


if __name__ == "__main__":
    sys.exit(run("torch_npu.profiler.advise", main))
