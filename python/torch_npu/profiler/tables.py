"""Writes the CSV and JSON files of ASCEND_PROFILER_OUTPUT. Times are microseconds. An unknown value is N/A."""

from __future__ import annotations

import csv
import json
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from . import names
from .links import busy, is_work, length, link
from .records import COLLECTIVE, ById, Call, Memory, Records, Step, Task

_TENSORS = [f"{way} {what}" for way in ("Input", "Output") for what in ("Shapes", "Data Types", "Formats")]
KERNEL_COLUMNS = [
    *("Step Id", "Device_id", "Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)", "Wait Time(us)"),
    *("Block Num", *_TENSORS),
]
OPERATOR_COLUMNS = [
    *("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)", "Host Total Duration(us)"),
    *("Device Self Duration(us)", "Device Total Duration(us)"),
    *("Device Self Duration With AICore(us)", "Device Total Duration With AICore(us)"),
]
STATISTIC_COLUMNS = [
    *("Device_id", "OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Avg Time(us)", "Max Time(us)"),
    "Ratio(%)",
]
API_COLUMNS = ["Device_id", "Level", "API Name", "Time(us)", "Count", "Avg(us)", "Min(us)", "Max(us)", "Variance"]
STEP_COLUMNS = [
    *("Device_id", "Step", "Computing", "Communication(Not Overlapped)", "Overlapped", "Communication", "Free"),
    *("Stage", "Bubble", "Communication(Not Overlapped and Exclude Receive)", "Preparing"),
]
_TOTALS = [f"{when} Total {what}(MB)" for when in ("Allocation", "Release") for what in ("Allocated", "Reserved", "Active")]
OPERATOR_MEMORY_COLUMNS = [
    *("Name", "Size(KB)", "Allocation Time(us)", "Release Time(us)", "Active Release Time(us)", "Duration(us)"),
    *("Active Duration(us)", *_TOTALS, "Stream Ptr", "Device Type"),
]
MEMORY_RECORD_COLUMNS = [
    *("Component", "Timestamp(us)", "Total Allocated(MB)", "Total Reserved(MB)", "Total Active(MB)", "Stream Ptr", "Device Type"),
]


TASK_COLUMNS = [
    *("Device_id", "kernel_name", "kernel_type", "stream_id", "task_id", "task_time(us)", "task_start(us)", "task_stop(us)"),
]
L2_COLUMNS = ["Device_id", "Stream Id", "Task Id", "Hit Rate", "Victim Rate", "Op Name"]


def us(nanoseconds: float) -> float:
    return round(nanoseconds / 1000, 3)


def stamp(nanoseconds: int) -> str:
    """Microseconds since 1970, as a text. A float would lose the last digits."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03}"


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    try:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from None


def tensors(task: Task, cells: Callable[[Any], Any] | None = None) -> list[str]:
    """The six cells of a task's inputs and outputs. cells: tensor_cells, or ById(tensor_cells).

    All cells are N/A if the record has no tensors. The shape of a scalar is an empty cell."""
    if not task.inputs and not task.outputs:
        return [names.UNKNOWN] * 6
    cells = cells or tensor_cells
    return [cell for row in (task.inputs, task.outputs) for cell in cells(row)]


def tensor_cells(row: Any) -> tuple[str, str, str]:
    """Shapes, data types and formats."""
    shapes = ";".join([",".join(map(str, shape)) for shape, _, _ in row])
    return shapes, ";".join([dtype for _, dtype, _ in row]), ";".join([form for _, _, form in row])


def write_all(folder: Path, records: Records, metrics: str = "ACL_AICORE_NONE", l2_cache: bool = False) -> None:
    """Writes every table for which there are records."""
    kernel_details(folder / "kernel_details.csv", records, metrics)
    operator_details(folder / "operator_details.csv", records)
    op_statistic(folder / "op_statistic.csv", records.tasks)
    api_statistic(folder / "api_statistic.csv", records.calls)
    step_trace_time(folder / "step_trace_time.csv", records)
    task_time(folder / "task_time.csv", records.tasks)
    communication(folder, records)
    if l2_cache:
        l2_rates(folder / "l2_cache.csv", records.tasks)
    if records.memory:
        operator_memory(folder / "operator_memory.csv", records)
        memory_record(folder / "memory_record.csv", records.memory)


def kernel_details(path: Path, records: Records, metrics: str) -> None:
    extra = names.METRIC_COLUMNS[metrics]
    unknown = [names.UNKNOWN] * len(extra)
    cells = ById(tensor_cells)
    kernels = sorted((task for task in records.tasks if task.kind in ("kernel", COLLECTIVE)), key=lambda task: task.start_ns)
    rows = (
        [
            *(records.step_of(task.start_ns), task.device, names.shown(task), names.operator_type(task), names.core(task)),
            *(stamp(task.start_ns), us(task.end_ns - task.start_ns)),
            *(us(max(task.start_ns - task.enqueue_ns, 0)) if task.enqueue_ns else names.UNKNOWN, names.UNKNOWN),
            *(*tensors(task, cells), *unknown),
        ]
        for task in kernels
    )
    write_csv(path, [*KERNEL_COLUMNS, *extra], rows)


def operator_details(path: Path, records: Records) -> None:
    totals: dict[Any, list[float]] = {}
    shapes_text, stack_text = ById(_shapes), ById(";".join)
    for node in link(records).nodes:
        operator = node.operator
        if operator.kind == "python":
            continue
        stack = stack_text(operator.stack) if operator.stack else ";".join(node.frames())
        row = totals.setdefault((operator.name, shapes_text(operator.shapes), stack), [0, 0, 0, 0])
        for index, value in enumerate((node.host_self, node.host_total, node.device_self, node.device_total)):
            row[index] += value
    rows = ([*key, *map(us, row), names.UNKNOWN, names.UNKNOWN] for key, row in totals.items())
    write_csv(path, OPERATOR_COLUMNS, rows)


def _shapes(shapes: Any) -> str:
    return ";".join(",".join(map(str, shape)) for shape in shapes if isinstance(shape, (list, tuple)))


def op_statistic(path: Path, tasks: Iterable[Task]) -> None:
    groups: dict[Any, list[int]] = defaultdict(list)
    for task in tasks:
        if task.kind in ("kernel", COLLECTIVE):
            groups[task.device, names.operator_type(task), names.core(task)].append(task.end_ns - task.start_ns)
    totals: dict[int, int] = defaultdict(int)
    for key, times in groups.items():
        totals[key[0]] += sum(times)
    rows = [
        [
            *key,
            len(times),
            us(sum(times)),
            us(min(times)),
            us(sum(times) / len(times)),
            us(max(times)),
            round(100 * sum(times) / (totals[key[0]] or 1), 3),
        ]
        for key, times in sorted(groups.items(), key=lambda item: -sum(item[1]))
    ]
    write_csv(path, STATISTIC_COLUMNS, rows)


def api_statistic(path: Path, calls: Iterable[Call]) -> None:
    groups: dict[str, list[float]] = defaultdict(list)
    for call in calls:
        groups[call.name].append((call.end_ns - call.start_ns) / 1000)
    rows = [
        ["host", "acl", name, round(sum(times), 3), len(times), *_spread(times)]
        for name, times in sorted(groups.items(), key=lambda item: -sum(item[1]))
    ]
    write_csv(path, API_COLUMNS, rows)


def _spread(times: list[float]) -> list[float]:
    mean = sum(times) / len(times)
    variance = sum((time - mean) ** 2 for time in times) / len(times)
    return [round(mean, 3), min(times), max(times), round(variance, 3)]


def task_time(path: Path, tasks: Iterable[Task]) -> None:
    rows = (
        [
            *(task.device, names.shown(task), names.core(task), task.stream, task.task),
            *(us(task.end_ns - task.start_ns), stamp(task.start_ns), stamp(task.end_ns)),
        ]
        for task in sorted(tasks, key=lambda task: task.start_ns)
    )
    write_csv(path, TASK_COLUMNS, rows)


def l2_rates(path: Path, tasks: Iterable[Task]) -> None:
    """Rows for l2_cache.csv. The software device has no L2 cache, so the rates are N/A."""
    unknown = [names.UNKNOWN] * 2
    kernels = (task for task in tasks if task.kind in ("kernel", COLLECTIVE))
    write_csv(path, L2_COLUMNS, ([task.device, task.stream, task.task, *unknown, names.shown(task)] for task in kernels))


def steps_or_all(records: Records) -> list[Step]:
    return records.steps or [Step(0, *records.span())]


def _receives(task: Task) -> bool:
    name = task.name.lower()
    return task.kind == COLLECTIVE and name.endswith(("recv", "receive")) and "send" not in name


def step_trace_time(path: Path, records: Records) -> None:
    """Rows for step_trace_time.csv. Bubble is the time of receives. Stage is the rest of the step. Copies belong to Free, not to
    Computing."""
    rows = []
    for device in records.devices():
        tasks = sorted(
            (task for task in records.tasks if task.device == device and is_work(task)), key=lambda task: task.start_ns
        )
        starts = [task.start_ns for task in tasks]
        newest_ends = list(accumulate((task.end_ns for task in tasks), max))
        for step in steps_or_all(records):
            later = bisect_left(starts, step.start_ns)
            inside = tasks[bisect_right(newest_ends, step.start_ns) : bisect_left(starts, step.end_ns)]
            times = busy(inside, step.start_ns, step.end_ns)
            alone, all_of_it = length(times.not_overlapped), length(times.communication)
            without = busy((task for task in inside if not _receives(task)), step.start_ns, step.end_ns)
            bubble = length(busy(filter(_receives, inside), step.start_ns, step.end_ns).communication)
            first = starts[later] if later < len(starts) else step.end_ns
            cells = [length(times.computing), alone, all_of_it - alone, all_of_it, length(times.free)]
            number = step.number if records.steps else ""
            cells += [step.end_ns - step.start_ns - bubble, bubble, length(without.not_overlapped)]
            cells.append(max(min(first, step.end_ns) - step.start_ns, 0))
            rows.append([device, number, *map(us, cells)])
    write_csv(path, STEP_COLUMNS, rows)


def communication(folder: Path, records: Records) -> None:
    """Writes communication.json if there are collectives. The device does not record the parts of a collective's time, so they
    are N/A."""
    found: dict[str, Any] = {}
    for task in records.tasks:
        if task.kind != COLLECTIVE:
            continue
        step = found.setdefault(f"step{records.step_of(task.start_ns)}", {"p2p": {}, "collective": {}})
        kind = "p2p" if task.name.lower().endswith(("send", "recv", "receive")) else "collective"
        elapsed = (task.end_ns - task.start_ns) / 1e6
        parts = {f"{name}(ms)": names.UNKNOWN for name in ("Transit Time", "Wait Time", "Synchronization Time", "Idle Time")}
        # Torch's own profiler keeps no bytes, and no time of the launch.
        size = task.bytes / 1e6 if task.bytes or task.enqueue_ns else None
        step[kind][f"{task.name}__{task.task}@{task.stream}"] = {
            "Communication Time Info": {"Start Timestamp(us)": task.start_ns / 1000, "Elapse Time(ms)": elapsed, **parts},
            "Communication Bandwidth Info": {
                "Transit Size(MB)": names.UNKNOWN if size is None else size,
                "Bandwidth(GB/s)": names.UNKNOWN if size is None else round(size / elapsed, 4) if elapsed else 0,
            },
        }
    if found:
        path = folder / "communication.json"
        try:
            path.write_text(json.dumps(found, indent=1))
        except OSError as error:
            raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from None


def operator_memory(path: Path, records: Records) -> None:
    """A row for each allocation. Kineto numbers the threads of allocations in its own way, so the operator is found by the time
    alone. Torch reports no stream and no active memory."""
    operators = sorted((row for row in records.operators if row.kind == "operator"), key=lambda row: row.start_ns)
    open_rows: dict[Any, tuple[Memory, str]] = {}
    rows = []

    def add(given: Memory, name: str, released: Memory | None) -> None:
        unknown = names.UNKNOWN
        end = [stamp(released.time_ns), unknown, us(released.time_ns - given.time_ns), unknown] if released else [""] * 4
        after = [mb(released.allocated), mb(released.reserved), unknown] if released else [""] * 3
        before = [mb(given.allocated), mb(given.reserved), unknown]
        rows.append([name, given.bytes / 1024, stamp(given.time_ns), *end, *before, *after, *_place(given)])

    active: list[Any] = []
    index = 0
    for event in records.memory:
        while index < len(operators) and operators[index].start_ns <= event.time_ns:
            active.append(operators[index])
            index += 1
        active = [row for row in active if row.end_ns >= event.time_ns]
        key = (event.device_type, event.device, event.address)
        if event.bytes > 0:
            if key in open_rows:  # torch did not report the release
                add(*open_rows.pop(key), None)
            open_rows[key] = (event, active[-1].name if active else "")
        elif key in open_rows:
            add(*open_rows.pop(key), event)
    for given, name in open_rows.values():
        add(given, name, None)
    write_csv(path, OPERATOR_MEMORY_COLUMNS, rows)


def memory_record(path: Path, memory: Iterable[Memory]) -> None:
    rows = (["PTA", stamp(row.time_ns), mb(row.allocated), mb(row.reserved), names.UNKNOWN, *_place(row)] for row in memory)
    write_csv(path, MEMORY_RECORD_COLUMNS, rows)


def _place(row: Memory) -> list[str]:
    return [names.UNKNOWN, f"{row.device_type.upper()}:{row.device}"]


def mb(size: int) -> float:
    return round(size / 1048576, 6)
