"""Writes records as a Chrome trace, for chrome://tracing, Perfetto, TensorBoard and HTA.

Times are numbers in microseconds since the first record. IDs are small. Events of a track follow each other or nest. An event
that would overlap only in part goes to another track with the same name."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from . import names
from .links import busy
from .records import WAIT, Mark, Records

Event = dict[str, Any]


class Layer:
    """A process of the trace, with its tracks by name."""

    def __init__(self, number: int, name: str, labels: str, order: int) -> None:
        self.number, self._tracks = number, 0
        self.events: list[Event] = [
            _meta("process_name", number, 0, name=name),
            _meta("process_labels", number, 0, labels=labels),
            _meta("process_sort_index", number, 0, sort_index=order),
        ]

    def track(self, name: str) -> int:
        self._tracks += 1
        self.events.append(_meta("thread_name", self.number, self._tracks, name=name))
        self.events.append(_meta("thread_sort_index", self.number, self._tracks, sort_index=self._tracks))
        return self._tracks


class Tracks:
    """Finds the track of each event. Events come in the order of (start, -end)."""

    def __init__(self, layer: Layer) -> None:
        self._layer = layer
        self._open: dict[Any, list[tuple[int, list[int]]]] = {}

    def place(self, key: Any, name: str, start: int, end: int) -> int:
        lanes = self._open.setdefault(key, [])
        for number, ends in lanes:
            while ends and ends[-1] <= start:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return number
        number = self._layer.track(name)
        lanes.append((number, [end]))
        return number


def _meta(kind: str, process: int, track: int, **arguments: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": track, "ts": 0, "args": arguments}


def _order(row: Any) -> tuple[int, int]:
    return row.start_ns, -row.end_ns


class TraceMaker:
    """The events of a trace. Layers: Python, CANN, Ascend Hardware, Communication, Overlap Analysis, Memory."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self.base = records.span()[0]
        self._launched: dict[int, tuple[int, int, float]] = {}

    def _x(self, name: str, layer: Layer, track: int, start: int, end: int, category: str, arguments: Event) -> Event:
        return {
            "ph": "X",
            "name": name,
            "pid": layer.number,
            "tid": track,
            "ts": (start - self.base) / 1000,
            "dur": (end - start) / 1000,
            "cat": category,
            "args": arguments,
        }

    def events(self) -> Iterator[Event]:
        yield from self.framework("Python", 1, "CPU", 0)
        yield from self.calls("CANN", 2, "CPU", 1)
        yield from self.tasks("Ascend Hardware", 3, "NPU", 2)
        yield from self.overlap("Overlap Analysis", 4, "NPU", 3)
        yield from self.memory("Memory", 5, "CPU", 4)

    def framework(self, title: str, number: int, labels: str, order: int, marks: bool = True) -> Iterator[Event]:
        layer = Layer(number, title, labels, order)
        tracks = Tracks(layer)
        rows: list[Any] = [*self._records.operators, *(self._records.marks if marks else ())]
        for row in sorted(rows, key=_order):
            if isinstance(row, Mark):
                category, arguments = "user_annotation", {"domain": row.domain}
                track = tracks.place(("mstx", row.thread), f"mstx {row.thread}", row.start_ns, row.end_ns)
                if row.start_ns == row.end_ns:
                    when = (row.start_ns - self.base) / 1000
                    yield {"ph": "i", "s": "t", "name": row.name, "pid": number, "tid": track, "ts": when, "args": arguments}
                    continue
            else:
                category, arguments = _operator_arguments(row)
                track = tracks.place(row.thread, f"Thread {row.thread}", row.start_ns, row.end_ns)
            yield self._x(row.name, layer, track, row.start_ns, row.end_ns, category, arguments)
        for step in self._records.steps:
            track = tracks.place("steps", "Steps", step.start_ns, step.end_ns)
            name = f"ProfilerStep#{step.number}"
            yield self._x(name, layer, track, step.start_ns, step.end_ns, "user_annotation", {})
        yield from layer.events

    def calls(self, title: str, number: int, labels: str, order: int) -> Iterator[Event]:
        layer = Layer(number, title, labels, order)
        tracks = Tracks(layer)
        for call in sorted(self._records.calls, key=_order):
            track = tracks.place(call.thread, f"Thread {call.thread}", call.start_ns, call.end_ns)
            event = self._x(call.name, layer, track, call.start_ns, call.end_ns, "runtime", {"correlation": call.correlation})
            if call.correlation:
                self._launched[call.correlation] = (number, track, event["ts"])
            yield event
        yield from layer.events

    def tasks(self, title: str, number: int, labels: str, order: int, only: str = "") -> Iterator[Event]:
        layer = Layer(number, title, labels, order)
        tracks = Tracks(layer)
        for task in sorted(self._records.tasks, key=_order):
            core = names.core(task)
            if only and core != only:
                continue
            label = f"NPU {task.device} Stream {task.stream}"
            track = tracks.place((task.device, task.stream), label, task.start_ns, task.end_ns)
            arguments = {
                "device": task.device,
                "stream": task.stream,
                "correlation": task.correlation,
                "Task Id": task.task,
                "Task Type": core,
                "aclnn": task.name,
                "Wait Time(us)": max(task.start_ns - task.enqueue_ns, 0) / 1000 if task.enqueue_ns else 0,
            }
            if task.bytes:
                arguments["bytes"] = task.bytes
            category = "gpu_memcpy" if task.kind in ("copy", "fill") else "wait" if task.kind == WAIT else "kernel"
            event = self._x(names.shown(task), layer, track, task.start_ns, task.end_ns, category, arguments)
            yield event
            source = None if only else self._launched.get(task.correlation)  # one arrow for each task
            if source is not None and source[2] <= event["ts"]:
                flow = {"name": "async_npu", "cat": "async_npu", "id": task.correlation}
                yield {"ph": "s", **flow, "pid": source[0], "tid": source[1], "ts": source[2]}
                yield {"ph": "f", "bp": "e", **flow, "pid": number, "tid": track, "ts": event["ts"]}
        yield from layer.events

    def overlap(self, title: str, number: int, labels: str, order: int) -> Iterator[Event]:
        layer = Layer(number, title, labels, order)
        for device in self._records.devices():
            tasks = [task for task in self._records.tasks if task.device == device]
            start, end = min(task.start_ns for task in tasks), max(task.end_ns for task in tasks)
            times = busy(tasks, start, end)
            for name, intervals in (
                ("Computing", times.computing),
                ("Communication", times.communication),
                ("Communication(Not Overlapped)", times.not_overlapped),
                ("Free", times.free),
            ):
                track = layer.track(f"NPU {device} {name}")
                for piece in intervals:
                    yield self._x(name, layer, track, *piece, "overlap", {})
        yield from layer.events

    def memory(self, title: str, number: int, labels: str, order: int) -> Iterator[Event]:
        if not self._records.memory:
            return
        layer = Layer(number, title, labels, order)
        for row in self._records.memory:
            name = f"{row.device_type.upper()}:{row.device} memory"
            values = {"allocated (MB)": row.allocated / 1048576, "reserved (MB)": row.reserved / 1048576}
            yield {"ph": "C", "name": name, "pid": number, "tid": 0, "ts": (row.time_ns - self.base) / 1000, "args": values}
        yield from layer.events


def _operator_arguments(row: Any) -> tuple[str, Event]:
    arguments: Event = {}
    if row.shapes:
        arguments["Input Dims"], arguments["Input type"] = row.shapes, row.dtypes
    if row.stack:
        arguments["Call stack"] = ";\n".join(row.stack)
    if row.sequence >= 0:
        arguments["Sequence number"] = row.sequence
    if row.kind == "python":
        return "python_function", arguments
    return ("user_annotation" if row.kind == "annotation" else "cpu_op"), arguments


def write_trace(path: Path, records: Records) -> None:
    """Writes the trace of all layers. A path that ends in .gz is compressed."""
    maker = TraceMaker(records)
    write_events(path, maker.events(), maker.base, records.info)


def write_events(path: Path, events: Iterable[Event], base: int, info: dict[str, Any]) -> None:
    """Writes the file under another name and renames it when it is complete."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
    try:
        with gzip.open(part, "wt") if path.suffix == ".gz" else part.open("w") as file:
            _write(file, events, base, info, encode)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OSError(error.errno, f"the trace cannot be written to {path}: {error.strerror}") from None


def _write(file: TextIO, events: Iterable[Event], base: int, info: dict[str, Any], encode: Any) -> None:
    head = {"schemaVersion": 1, "displayTimeUnit": "ns", "baseTimeNanoseconds": base}
    head["distributedInfo"] = {"rank": info.get("rank", 0)}
    file.write(encode(head)[:-1])
    file.write(',"traceEvents":[')
    waiting, mark = iter(events), "\n"
    while batch := list(islice(waiting, 500)):
        file.write(f"{mark}{encode(batch)[1:-1]}")
        mark = ",\n"
    file.write("\n]}\n")
