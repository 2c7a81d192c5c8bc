"""Reads a trace of torch.profiler: *.pt.trace.json of its tensorboard_trace_handler, or a file of export_chrome_trace.

    read_trace(Path("traces/worker.1795068230643481282.pt.trace.json"))     # also compressed, as .json.gz

A trace lacks totals of allocations, numbers of fallbacks, and settings of the host.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

from .names import UNKNOWN
from .records import COLLECTIVE, COPY, FILL, KERNEL, Call, NotAProfile, Operator, Records, Shared, Step, Task

_SUFFIXES = (".json", ".json.gz")
_OPERATORS = {"cpu_op": "operator", "user_annotation": "annotation", "python_function": "python"}
_TASKS = {"kernel", "gpu_memcpy", "gpu_memset"}
_COPY = re.compile(r"Mem(?:cpy (\w+)|set) \((.+)\)")
_STEP = re.compile(r"ProfilerStep#(\d+)")
_FIRST_ROW_WITHOUT_STREAM = 100_000  # equal to kFirstRowWithoutStream of kineto_profiler.cpp


def task_of(name: str) -> tuple[str, str, str]:
    """The name, kind and direction of a task, from its name in torch's profile."""
    if copy := _COPY.fullmatch(name):
        return copy[2], COPY if copy[1] else FILL, copy[1] or ""
    return name, COLLECTIVE if name.startswith("Hccl") else KERNEL, ""


def stream_of(row: int) -> int:
    return -1 if row >= _FIRST_ROW_WITHOUT_STREAM else row


def add_types(records: Records) -> None:
    """Gives copies the data types of their operator, if torch recorded its shapes. A conversion of types has another name than a
    copy to contiguous memory."""
    by_id = {row.id: row for row in records.operators if row.id and row.name == "aten::copy_" and len(row.dtypes) > 1}
    for index, task in enumerate(records.tasks):
        row = by_id.get(task.external)
        if row is not None and "Copy" in task.name and not (task.inputs and task.inputs[0][1]):
            target, source = ([(row.shapes[side], _TYPES.get(row.dtypes[side], row.dtypes[side]), UNKNOWN)] for side in (0, 1))
            records.tasks[index] = task._replace(inputs=source, outputs=target)


_TYPES = {
    **{"float": "FLOAT", "double": "DOUBLE", "c10::Half": "FLOAT16", "c10::BFloat16": "DT_BF16", "bool": "BOOL"},
    **{"signed char": "INT8", "unsigned char": "UINT8", "short int": "INT16", "int": "INT32", "long int": "INT64"},
    **{"c10::complex<float>": "COMPLEX64", "c10::complex<double>": "COMPLEX128"},
}


def find_trace(path: Path) -> Path | None:
    """The path itself, or the newest *.pt.trace.json in a folder."""
    if path.is_file():
        return path if path.name.endswith(_SUFFIXES) else None
    found = [each for suffix in _SUFFIXES for each in path.glob(f"*.pt.trace{suffix}")]
    return max(found, key=lambda each: each.stat().st_mtime, default=None)


def read_trace(path: Path) -> Records:
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            trace = json.load(file)
        return _Reader(trace).records
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, EOFError, gzip.BadGzipFile):
        raise NotAProfile(f"{path} is damaged, or is not a trace of torch.profiler; record the profile again") from None


class _Reader:
    def __init__(self, trace: dict[str, Any]) -> None:
        self._base, self._shared = int(trace.get("baseTimeNanoseconds", 0)), Shared()
        self.records = Records(info={"rank": int(trace.get("distributedInfo", {}).get("rank", 0))})
        for event in trace["traceEvents"]:
            if event.get("ph") == "X":
                self._add(event, event.get("cat"), event.get("args") or {})
        self.records.steps.sort(key=lambda step: step.start_ns)
        add_types(self.records)

    def _add(self, event: dict[str, Any], category: Any, given: dict[str, Any]) -> None:
        records, name = self.records, self._shared(str(event["name"]))
        if category in _TASKS:
            records.tasks.append(self._task(event, name, given))
        elif category == "privateuse1_runtime":
            records.calls.append(Call(name, int(event["tid"]), *self._times(event), int(given.get("correlation", 0))))
        elif category in _OPERATORS and (step := _STEP.fullmatch(name)):
            records.steps.append(Step(int(step[1]), *self._times(event)))
        elif category in _OPERATORS:
            records.operators.append(self._operator(event, name, _OPERATORS[category], given))

    def _times(self, event: dict[str, Any]) -> tuple[int, int]:
        start = self._base + round(event["ts"] * 1000)
        return start, start + round(event["dur"] * 1000)

    def _operator(self, event: dict[str, Any], name: str, kind: str, given: dict[str, Any]) -> Operator:
        shapes, dtypes = (self._shared(list(given.get(key, ()))) for key in ("Input Dims", "Input type"))
        number = int(given.get("External id", 0)) if kind == "operator" else 0
        sequence = int(given.get("Sequence number", -1))
        times = self._times(event)
        return Operator(name, int(event["tid"]), *times, kind, shapes, dtypes, sequence=sequence, id=number)

    def _task(self, event: dict[str, Any], name: str, given: dict[str, Any]) -> Task:
        start, end = self._times(event)
        name, kind, direction = task_of(name)
        return Task(
            name,
            kind,
            int(given.get("device", 0)),
            stream_of(int(given.get("stream", 0))),
            enqueue_ns=start - int(given.get("wait (ns)", 0)),
            start_ns=start,
            end_ns=end,
            correlation=int(given.get("correlation", 0)),
            external=int(given.get("External id", 0)),
            bytes=int(given.get("bytes", 0)),
            direction=direction,
            inputs=self._shared([(shape, "", "") for shape in given.get("Input Dims", ())]),
            outputs=self._shared([(shape, "", "") for shape in given.get("Output Dims", ())]),
        )
