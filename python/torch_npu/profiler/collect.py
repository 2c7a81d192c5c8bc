"""Collects the records of the device, and converts a finished recording of torch's profiler (Kineto) to records."""

from __future__ import annotations

import gc
import os
import re
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import _C
from ..npu.fallback import fallback_stats
from ..npu.mstx import mstx
from . import _records
from .ranks import rank
from .records import KERNEL, Call, Mark, Memory, Operator, Records, Shared, Step, Task
from .torch_trace import add_types, stream_of, task_of

_PYTHON = re.compile(r".*\.py\(\d+\): |<|nn\.Module: ")

_STEP, _MEMORY = "ProfilerStep#", "[memory]"
GARBAGE_COLLECTION = "garbage collection"  # the domain of its marks


class Recorder:
    """Records the device and the marks of mstx. With gc_milliseconds, also records garbage collections that take this long."""

    def __init__(self, host_calls: bool = True, shapes: bool = True, gc_milliseconds: float | None = None) -> None:
        self._fallbacks = dict(fallback_stats())
        self._session = _records.start(host_calls=host_calls, shapes=shapes)
        self._marks = mstx._listen()
        self._collections = None if gc_milliseconds is None else _Collections(gc_milliseconds)

    def stop(self) -> Records:
        """Waits for the device, ends the recording and returns the records. Raises an error of the device after the recording has
        ended."""
        try:
            error = self.wait()
        finally:
            records = self.read()
        if error is not None:
            raise error
        return records

    def wait(self) -> RuntimeError | None:
        """Waits for the device. Returns the error that it reports. Calls from now on are those of the profiler.

        A wait would end the capture of a graph, so there is none while a graph is captured."""
        self._end_ns = time.time_ns()
        if torch.npu.is_initialized() and not _C._npu_captures_exist():
            try:
                torch.npu.synchronize()
            except RuntimeError as error:
                return error
        return None

    def read(self) -> Records:
        """Ends the recording. Call wait() first. info["fallbacks"] has the number of fallbacks to the CPU by operator."""
        records = Records(info={"process": os.getpid(), "rank": rank(), "python": sys.argv[0], **host_settings()})
        found = _records.stop(self._session)
        records.tasks = [Task._make(task) for task in found.tasks]
        records.calls = [Call._make(call) for call in found.calls if call.start_ns < self._end_ns]
        records.marks = [Mark(*mark[:5]) for mark in found.marks]
        records.dropped, records.unfinished = found.dropped, found.unfinished
        records.marks += [Mark(*row) for row in mstx._stop_listening(self._marks)]
        records.marks += self._collections.stop() if self._collections is not None else []
        before = self._fallbacks
        counts = {str(name): count - before.get(name, 0) for name, count in fallback_stats().items()}
        records.info["fallbacks"] = {name: count for name, count in counts.items() if count}
        return records


class _Collections:
    def __init__(self, least_milliseconds: float) -> None:
        self._least_ns, self._start = least_milliseconds * 1e6, 0
        self._marks: list[Mark] = []
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now = time.time_ns()
        if phase == "start":
            self._start = now
        elif self._start and now - self._start >= self._least_ns:
            name = f"collection of generation {info['generation']}"
            self._marks.append(Mark(name, threading.get_native_id(), self._start, now, domain=GARBAGE_COLLECTION))

    def stop(self) -> list[Mark]:
        gc.callbacks.remove(self._note)
        return self._marks


def host_settings() -> dict[str, Any]:
    """Settings that change the speed of the host. The governor is "" if the system has none."""
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return {
        "governor": path.read_text().strip() if path.is_file() else "",
        "threads": torch.get_num_threads(),
        "processors": len(os.sched_getaffinity(0)),
    }


def host_records(results: Any, records: Records | None = None) -> Records:
    """Converts kineto_results: operators, ranges, Python functions, memory and steps, and tasks and calls of devices if Kineto
    has them.

    The result also contains the given records, which are not changed. If there are no tasks at all, a task is made for each
    innermost operator with a device time. Events around the operator on its stream measure this time. The task starts when the
    operator starts on the host."""
    records = _copy(records) if records else Records(info={"process": os.getpid(), "rank": rank()})
    own_tasks, own_calls = bool(records.tasks), bool(records.calls)
    timed: list[Operator] = []
    shared = Shared()
    events = results.events()
    callers: dict[Any, str] = {}
    if any(_is_python(event) or _name(event) == _MEMORY for event in events):
        callers = _read_tree(results.experimental_event_tree(), records.memory)
    for event in events:
        name = _name(event)
        if name == _MEMORY:
            continue
        if event.device_type() == torch._C._autograd.DeviceType.PrivateUse1:
            if not own_tasks and not event.is_user_annotation():
                records.tasks.append(_device_task(event))
            continue
        if _is_call(event):
            if not own_calls:
                records.calls.append(_call(event))
            continue
        if name.startswith(_STEP) and name[len(_STEP) :].isdecimal():
            records.steps.append(Step(int(name[len(_STEP) :]), event.start_ns(), event.end_ns()))
            continue
        operator = _operator(event, shared, callers)
        records.operators.append(operator)
        if operator.device_ns > 0:
            timed.append(operator)
    records.steps.sort(key=lambda step: step.start_ns)
    records.info["device_times"] = "tasks" if records.tasks else "events around operators" if timed else "none"
    if not own_tasks:
        add_types(records)
    if not records.tasks:
        records.tasks = _tasks_of_operators(timed)
    return records


def _copy(records: Records) -> Records:
    """A copy with lists of its own, because several handlers may read a trace."""
    copy = replace(records, info=dict(records.info))
    for name in ("tasks", "calls", "operators", "marks", "memory", "steps"):
        setattr(copy, name, list(getattr(records, name)))
    return copy


def _name(event: Any) -> str:
    """The name of an event. Torch keeps pointers to the names of Python functions. If the code was freed since, the pointer leads
    to other bytes."""
    try:
        return event.name()
    except UnicodeDecodeError:
        return "freed function"


def _is_call(event: Any) -> bool:
    """Whether the event is a call of AscendCL. Torch before 2.12 has no such events, and events have no type."""
    kind = getattr(event, "activity_type", None)
    return kind is not None and kind() == "privateuse1_runtime"


def _is_python(event: Any) -> bool:
    """Whether the event is a Python function. In torch before 2.12 only the name shows this."""
    said = getattr(event, "is_python_function", None)
    return said() if said is not None else _PYTHON.match(_name(event)) is not None


def _call(event: Any) -> Call:
    return Call(_name(event), event.device_resource_id(), event.start_ns(), event.end_ns(), event.correlation_id())


def _operator(event: Any, shared: Shared, callers: dict[Any, str]) -> Operator:
    kind = "python" if _is_python(event) else "annotation" if event.is_user_annotation() else "operator"
    elapsed = event.privateuse1_elapsed_us() if kind == "operator" else -1
    caller = callers.get((event.start_ns(), _name(event))) if kind == "python" else None
    return Operator(
        shared(_name(event)),
        event.device_resource_id(),
        event.start_ns(),
        event.end_ns(),
        kind,
        shared(event.shapes()),
        shared(event.dtypes()),
        shared([caller] if caller else event.stack()),
        event.sequence_nr(),
        max(int(elapsed * 1000), 0),
        event.flops(),
        event.correlation_id(),
    )


def _device_task(event: Any) -> Task:
    name, kind, direction = task_of(_name(event))
    return Task(
        name,
        kind,
        max(event.device_index(), 0),
        stream_of(event.device_resource_id()),
        direction=direction,
        start_ns=event.start_ns(),
        end_ns=event.end_ns(),
        correlation=event.correlation_id(),
        external=event.linked_correlation_id(),
    )


def _tasks_of_operators(operators: list[Operator]) -> list[Task]:
    """Makes a task for each operator that contains no other operator with a device time."""
    tasks: list[Task] = []
    by_thread: dict[int, list[Operator]] = {}
    for operator in operators:
        by_thread.setdefault(operator.thread, []).append(operator)
    for row in by_thread.values():
        row.sort(key=lambda operator: (operator.start_ns, -operator.end_ns))
        for index, operator in enumerate(row):
            if index + 1 < len(row) and row[index + 1].start_ns < operator.end_ns:
                continue  # this operator contains the next one
            start = operator.start_ns
            tasks.append(
                Task(
                    operator.name,
                    KERNEL,
                    task=len(tasks) + 1,
                    thread=operator.thread,
                    enqueue_ns=start,
                    start_ns=start,
                    end_ns=start + operator.device_ns,
                    external=operator.id,
                    inputs=[
                        (shape, dtype, "ND") for shape, dtype in zip(operator.shapes, operator.dtypes, strict=False) if dtype
                    ],
                )
            )
    return tasks


def _read_tree(roots: Any, rows: list[Memory]) -> dict[Any, str]:
    """Adds the allocations to `rows`, in the order of time. Returns the line that called each Python function; the key is its
    start and name."""
    callers: dict[Any, str] = {}
    kinds = torch._C._profiler._EventType
    waiting = list(roots)
    while waiting:
        event = waiting.pop()
        kind, extra = event.typed
        if kind == kinds.Allocation:
            rows.append(_memory(event, extra))
        elif kind in (kinds.PyCall, kinds.PyCCall):
            caller = extra.caller
            with suppress(UnicodeDecodeError):  # see _name()
                callers[event.start_time_ns, event.name] = f"{caller.file_name}({caller.line_number}): {caller.function_name}"
        waiting += event.children
    rows.sort(key=lambda row: row.time_ns)
    return callers


def _memory(event: Any, extra: Any) -> Memory:
    totals = (extra.total_allocated, extra.total_reserved)
    place = (extra.device.type, extra.device.index or 0)
    return Memory(*place, extra.ptr or 0, extra.alloc_size, *totals, event.start_time_ns, event.start_tid)
