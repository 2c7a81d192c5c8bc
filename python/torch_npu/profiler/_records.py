"""Records of the software device: tasks, calls of AscendCL and marks. Times are nanoseconds since 1970.

    session = start()
    model(inputs)
    torch.npu.synchronize()
    for task in stop(session).tasks:
        print(task.name, task.stream, task.end_ns - task.start_ns)

Sessions may overlap: each gets the records since its own start. The functions may be called on any thread.
"""

from __future__ import annotations

from typing import NamedTuple

from .. import _C


class TensorInfo(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    format: str


class Task(NamedTuple):
    """A task of a stream. stream is -1 for a copy that ran in the calling thread. external is the number of torch's operator, or
    0."""

    name: str
    kind: str
    device: int
    stream: int
    task: int
    thread: int
    enqueue_ns: int
    start_ns: int
    end_ns: int
    correlation: int
    external: int
    bytes: int
    direction: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]


class HostCall(NamedTuple):
    """A call on the host. correlation equals the correlation of the task that the call launched, or is 0."""

    name: str
    thread: int
    start_ns: int
    end_ns: int
    correlation: int


class Mark(NamedTuple):
    name: str
    thread: int
    start_ns: int
    end_ns: int
    stream: int


class Records(NamedTuple):
    """dropped: number of records that did not fit into memory. unfinished: number of tasks that were skipped or had not ended at
    stop()."""

    tasks: list[Task]
    calls: list[HostCall]
    marks: list[Mark]
    dropped: int
    unfinished: int


_sessions: list[int] = []


def start(host_calls: bool = True, shapes: bool = True) -> int:
    """Begins a session and returns its number. RuntimeError if the device library has no records."""
    session = _C._profiler_start(host_calls, shapes)
    _sessions.append(session)
    return session


def stop(session: int | None = None) -> Records:
    """Ends a session, by default the newest one. It does not wait for the device."""
    if session is None:
        if not _sessions:
            raise RuntimeError("stop: the device is not being recorded; call start() first")
        session = _sessions[-1]
    tasks, calls, marks, dropped, unfinished = _C._profiler_stop(session)
    if session in _sessions:
        _sessions.remove(session)
    tensors = TensorInfo._make
    return Records(
        [Task._make((*task[:13], tuple(map(tensors, task[13])), tuple(map(tensors, task[14])))) for task in tasks],
        [HostCall._make(call) for call in calls],
        [Mark._make(mark) for mark in marks],
        dropped,
        unfinished,
    )
