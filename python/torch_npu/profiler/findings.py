"""Finds the causes of lost time in records. Findings are in the order of their cost.

for finding in examine(read_any("folder")): print(finding.text())
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from . import names
from .links import Calls, Node, busy, length, link, merged
from .records import COLLECTIVE, Records, Task

_SYNCHRONISING = re.compile(r"aclrtSynchronize(Stream|Device|Event)|aclrtMemcpy(2d)?$")
_WAITING_OPERATORS = {"aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::masked_select"}
_LOADER = "enumerate(DataLoader)"
_SMALL_NS, _LATE_NS = 20_000, 1_000_000
_OF_TORCH = re.compile(r"^(torch|torch_npu)/|/(site|dist)-packages/(torch|torch_npu)/")
_FRAME = re.compile(r"(.+\.py)\((\d+)\): (.+)")
# Drops "... of NAME object at ADDRESS>", which does not help the user.
_BUILT_IN = re.compile(r"<built-in (?:method|function) (\w+)\b.*>")


@dataclass(frozen=True)
class Finding:
    kind: str
    title: str
    cost_us: float  # time that was spent or idle
    count: int
    advice: str
    lines: list[str] = field(default_factory=list)  # texts "file:line function", the most costly first

    def text(self) -> str:
        where = "".join(f"\n      {line}" for line in self.lines)
        return f"{self.cost_us / 1000:10.3f} ms  {self.title} ({self.count}x)\n      {self.advice}{where}"


def examine(records: Records) -> list[Finding]:
    calls = link(records)
    found: list[Finding] = []
    for rule in (_fallbacks, _synchronisations, _copies, _format_casts, _first_calls, _loader, _launches, _overlap, _host):
        found += rule(records, calls)
    return sorted(found, key=lambda finding: -finding.cost_us)


def python_line(node: Node | None) -> str:
    """The innermost line of the user's Python code that called an operator; "" without stacks. For an operator of the backward
    pass this is the line of its forward operator."""
    if node is None:
        return ""
    return next(filter(None, map(_user_line, (node.forward or node).frames())), "")


def _user_line(frame: str) -> str:
    found = _FRAME.match(frame)
    if found is None or _OF_TORCH.search(found[1]) or Path(found[1]).parts[0].removesuffix(".py") in sys.stdlib_module_names:
        return ""
    return f"{found[1]}:{found[2]} {found[3]}"


def _lines(costs: Iterable[tuple[str, float]], most: int = 5) -> list[str]:
    totals: dict[str, float] = defaultdict(float)
    for line, cost in costs:
        if line:
            totals[line] += cost
    return sorted(totals, key=lambda line: -totals[line])[:most]


def _fallbacks(records: Records, calls: Calls) -> Iterator[Finding]:
    counts = records.info.get("fallbacks") or {}
    if not counts:
        return
    wanted = {name.split(".")[0] for name in counts}
    nodes = _outermost(calls, wanted)
    cost = sum(node.host_total for node in nodes) / 1000
    shown = ", ".join(f"{name} {count}x" for name, count in sorted(counts.items(), key=lambda item: -item[1])[:8])
    yield Finding(
        "fallback",
        f"operators ran on the CPU: {shown}",
        cost,
        sum(counts.values()),
        "Each copies its tensors to the CPU and back; use another operator, or see docs/ops.md.",
        _lines((python_line(node), node.host_total) for node in nodes),
    )


def _synchronisations(records: Records, calls: Calls) -> Iterator[Finding]:
    waits = [call for call in records.calls if _SYNCHRONISING.match(call.name)]
    nodes = [(calls.at(call.thread, call.start_ns), call.end_ns - call.start_ns) for call in waits]
    if not records.calls:
        nodes = [(node, node.host_total) for node in _outermost(calls, _WAITING_OPERATORS)]
    if nodes:
        yield Finding(
            "synchronisation",
            "the host waits for the device",
            sum(cost for _, cost in nodes) / 1000,
            len(nodes),
            "Such calls are .item(), .cpu(), print(tensor), `if tensor`, nonzero; move them out of the loop.",
            _lines((_place(node), cost) for node, cost in nodes),
        )


def _outermost(calls: Calls, wanted: set[str]) -> list[Node]:
    """The operators with these names, without operators inside of another one of them, so that no time counts twice."""
    nodes = [node for node in calls.nodes if node.operator.name in wanted]
    return [node for node in nodes if not any(above.operator.name in wanted for above in node.above())]


def _place(node: Node | None) -> str:
    if node is None:
        return ""
    line, name = python_line(node), _BUILT_IN.sub(r"\1", node.operator.name)
    return f"{line} ({name})" if line else name


def _tasks(records: Records, calls: Calls, kind: str, title: str, advice: str, wanted: Callable[..., bool]) -> Iterator[Finding]:
    nodes = {id(task): node for node in calls.nodes for task in node.tasks}
    found = [task for task in records.tasks if wanted(task, nodes.get(id(task)))]
    if found:
        cost = sum(task.end_ns - task.start_ns for task in found) / 1000
        lines = _lines_of_tasks(found, calls, lambda task: task.end_ns - task.start_ns)
        yield Finding(kind, title, cost, len(found), advice, lines)


def _is_format_cast(task: Task, node: Node | None) -> bool:
    """Whether the task changes a format. The software device uses copies for this, so the name of the operator decides."""
    if names.is_format_cast(task):
        return True
    return node is not None and any("format_cast" in each.operator.name for each in (node, *node.above()))


def _is_contiguous_copy(task: Task, node: Node | None) -> bool:
    return names.is_contiguous_copy(task) and not _is_format_cast(task, node) and not _may_convert(task, node)


def _may_convert(task: Task, node: Node | None) -> bool:
    """Torch's own profiler gives no data types without record_shapes. Then the operator tells."""
    knows_types = bool(task.inputs and task.inputs[0][1])
    return not knows_types and node is not None and any(above.operator.name == "aten::_to_copy" for above in node.above())


def _lines_of_tasks(tasks: Iterable[Task], calls: Calls, cost: Callable[[Task], float]) -> list[str]:
    nodes = {id(task): node for node in calls.nodes for task in node.tasks}
    return _lines((_place(nodes.get(id(task))), cost(task)) for task in tasks)


def _copies(records: Records, calls: Calls) -> Iterator[Finding]:
    advice = "Views (transpose, permute, chunk, expand) make later operators copy; use operators that compute, or copy once."
    yield from _tasks(records, calls, "copy", "copies to contiguous memory", advice, _is_contiguous_copy)


def _format_casts(records: Records, calls: Calls) -> Iterator[Finding]:
    advice = "Cast weights once, before the training (torch_npu.npu_format_cast). The software device needs no casts."
    yield from _tasks(records, calls, "format", "changes of format (TransData)", advice, _is_format_cast)


def _first_calls(records: Records, calls: Calls) -> Iterator[Finding]:
    groups: dict[str, list[Node]] = defaultdict(list)
    for node in calls.nodes:
        if node.operator.kind == "operator":
            groups[node.operator.name].append(node)
    late = []
    for nodes in groups.values():
        if len(nodes) > 3:
            first = min(nodes, key=lambda node: node.operator.start_ns)
            excess = first.host_total - median(node.host_total for node in nodes)
            if excess > _LATE_NS:
                late.append((first, excess))
    late = _without_inner(late)
    if late:
        yield Finding(
            "first call",
            "first calls of operators cost more than later ones",
            sum(cost for _, cost in late) / 1000,
            len(late),
            "Run about 10 steps before the profile (warmup of the schedule); pad changing shapes to a few fixed shapes.",
            _lines((_place(node), cost) for node, cost in late),
        )


def _without_inner(late: list[tuple[Node, float]]) -> list[tuple[Node, float]]:
    """Subtracts the excess of each call from the excess of the call that contains it, so that no time counts twice."""
    rest = {id(node): excess for node, excess in late}
    for node, excess in late:
        around = next((id(above) for above in node.above() if id(above) in rest), None)
        if around is not None:
            rest[around] -= excess
    return [(node, rest[id(node)]) for node, _ in late if rest[id(node)] > _LATE_NS]


def _loader(records: Records, calls: Calls) -> Iterator[Finding]:
    nodes = [node for node in calls.nodes if node.operator.name.startswith(_LOADER)]
    if nodes:
        yield Finding(
            "data loader",
            "the program waits for batches of the data loader",
            sum(node.host_total for node in nodes) / 1000,
            len(nodes),
            "Give DataLoader more workers (num_workers), pin_memory=True, persistent_workers=True, or cheaper transforms.",
            _lines((python_line(node), node.host_total) for node in nodes),
        )


def _launches(records: Records, calls: Calls) -> Iterator[Finding]:
    for device in records.devices():
        kernels = [task for task in records.tasks if task.device == device and task.kind == "kernel"]
        small = [task for task in kernels if task.end_ns - task.start_ns < _SMALL_NS]
        if len(small) < 100 or len(small) < len(kernels) / 2:
            continue
        start, end = min(task.start_ns for task in kernels), max(task.end_ns for task in kernels)
        pieces = ((max(task.start_ns, start), min(task.end_ns, end)) for task in records.tasks if _occupies(task, device))
        free = end - start - length(merged(pieces))
        yield Finding(
            "small launches",
            f"NPU {device} is idle between short kernels",
            free / 1000,
            len(small),
            f"{len(small)} of {len(kernels)} kernels take less than {_SMALL_NS // 1000} us; torch.npu.NPUGraph replays them in "
            "one launch, and fused optimizers need fewer.",
            _lines_of_tasks(small, calls, lambda task: 1),
        )


def _occupies(task: Task, device: int) -> bool:
    return task.device == device and task.kind in ("kernel", "copy", "fill", COLLECTIVE)


def _overlap(records: Records, calls: Calls) -> Iterator[Finding]:
    for device in records.devices():
        tasks = [task for task in records.tasks if task.device == device]
        collectives = [task for task in tasks if task.kind == COLLECTIVE]
        if not collectives:
            continue
        alone = length(busy(tasks, *records.span()).not_overlapped)
        if alone:
            yield Finding(
                "communication",
                f"NPU {device} communicates while it computes nothing",
                alone / 1000,
                len(collectives),
                "DistributedDataParallel overlaps gradients with the backward pass: larger buckets (bucket_cap_mb), fewer small "
                "collectives.",
                _lines_of_tasks(collectives, calls, lambda task: task.end_ns - task.start_ns),
            )


def _host(records: Records, calls: Calls) -> Iterator[Finding]:
    governor = records.info.get("governor", "")
    if governor and governor != "performance":
        title = f"the processors run with the governor {governor}"
        yield Finding("host", title, 0.0, 1, "cpupower frequency-set -g performance (docs/profiling.md)")
    threads, processors = records.info.get("threads", 0), records.info.get("processors", 0)
    if processors and threads > processors:
        title = f"torch uses {threads} threads on {processors} processors"
        yield Finding("host", title, 0.0, 1, f"Set OMP_NUM_THREADS={processors} or less.")
    if missing := records.what_is_missing():
        yield Finding("records", f"the records are incomplete: {missing}", 0.0, 1, "Record fewer steps.")
