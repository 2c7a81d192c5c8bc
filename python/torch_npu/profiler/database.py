"""Writes the records as an SQLite database with the tables of ascend_pytorch_profiler_RANK.db. A text is stored as its number in
STRING_IDS.

A call (CANN_API) and the task that it launched (TASK) have the same connectionId. The connectionId of an operator (PYTORCH_API)
is an id of CONNECTION_IDS, which lists the connectionIds of its tasks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import names
from .records import COLLECTIVE, VERSION, ById, Records
from .tables import tensor_cells

_TABLES = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA": "name TEXT, value TEXT",
    "TASK": "startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER, globalTaskId INTEGER, globalPid INTEGER, "
    "taskType INTEGER, contextId INTEGER, streamId INTEGER, taskId INTEGER, modelId INTEGER",
    "COMPUTE_TASK_INFO": "name INTEGER, globalTaskId INTEGER PRIMARY KEY, blockDim INTEGER, mixBlockDim INTEGER, "
    "taskType INTEGER, opType INTEGER, inputFormats INTEGER, inputDataTypes INTEGER, inputShapes INTEGER, outputFormats INTEGER, "
    "outputDataTypes INTEGER, outputShapes INTEGER, attrInfo INTEGER",
    "COMMUNICATION_OP": "opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
    "opId INTEGER PRIMARY KEY, relay INTEGER, retry INTEGER, dataType INTEGER, algType INTEGER, count INTEGER, opType INTEGER, "
    "deviceId INTEGER",
    "CANN_API": "startNs INTEGER, endNs INTEGER, type INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER",
    "PYTORCH_API": "startNs INTEGER, endNs INTEGER, globalTid INTEGER, connectionId INTEGER, name INTEGER, "
    "sequenceNumber INTEGER, fwdThreadId INTEGER, inputDtypes INTEGER, inputShapes INTEGER, callchainId INTEGER, type INTEGER",
    "CONNECTION_IDS": "id INTEGER, connectionId INTEGER",
    "MSTX_EVENTS": "startNs INTEGER, endNs INTEGER, eventType INTEGER, rangeId INTEGER, category INTEGER, message INTEGER, "
    "globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, connectionId INTEGER",
    "STEP_TIME": "id INTEGER, startNs INTEGER, endNs INTEGER",
    "MEMORY_RECORD": "component INTEGER, timestamp INTEGER, totalAllocated INTEGER, totalReserved INTEGER, totalActive INTEGER, "
    "streamPtr INTEGER, deviceId INTEGER",
}


class _Strings:
    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def write(path: Path, records: Records) -> None:
    """Writes the database under another name and renames it when it is complete. OSError names the path."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        part.unlink(missing_ok=True)
        with sqlite3.connect(part) as base:
            for name, columns in _TABLES.items():
                base.execute(f"CREATE TABLE {name} ({columns})")
            strings = _Strings()
            for name, rows in _rows(records, strings):
                marks = ",".join("?" * (_TABLES[name].count(",") + 1))
                base.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            base.executemany("INSERT INTO STRING_IDS VALUES (?,?)", ((number, text) for text, number in strings.numbers.items()))
        base.close()
        os.replace(part, path)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise OSError(getattr(error, "errno", None) or 5, f"{path} cannot be written: {error}") from None


def _rows(records: Records, text: _Strings) -> Iterator[tuple[str, Iterable[tuple[Any, ...]]]]:
    process = records.info.get("process", 0)
    cells = ById(lambda row: [text(cell) for cell in reversed(tensor_cells(row))])
    joined, lines = ById(lambda row: text(";".join(map(str, row)))), ById(lambda row: text(";\n".join(row)))
    yield "META_DATA", [("SCHEMA_VERSION", str(VERSION)), *((name, str(value)) for name, value in records.info.items())]
    yield (
        "TASK",
        (
            (
                task.start_ns,
                task.end_ns,
                task.device,
                task.correlation,
                number,
                process,
                text(names.core(task)),
                0,
                task.stream,
                task.task,
                0,
            )
            for number, task in enumerate(records.tasks)
        ),
    )
    yield (
        "COMPUTE_TASK_INFO",
        (
            (
                text(names.shown(task)),
                number,
                None,
                None,
                text(names.core(task)),
                text(names.operator_type(task)),
                *cells(task.inputs),
                *cells(task.outputs),
                None,
            )
            for number, task in enumerate(records.tasks)
            if task.kind == "kernel"
        ),
    )
    yield (
        "COMMUNICATION_OP",
        (
            (
                text(task.name),
                task.start_ns,
                task.end_ns,
                task.correlation,
                None,
                number,
                None,
                None,
                None,
                None,
                None,  # the number of elements: the device records bytes
                text(names.operator_type(task)),
                task.device,
            )
            for number, task in enumerate(records.tasks)
            if task.kind == COLLECTIVE
        ),
    )
    yield (
        "CANN_API",
        (
            (call.start_ns, call.end_ns, text("acl"), (process << 32) + call.thread, call.correlation, text(call.name))
            for call in records.calls
        ),
    )
    yield (
        "PYTORCH_API",
        (
            (
                row.start_ns,
                row.end_ns,
                (process << 32) + row.thread,
                row.id or None,
                text(row.name),
                row.sequence,
                None,
                joined(row.dtypes),
                joined(row.shapes),
                lines(row.stack),
                text(row.kind),
            )
            for row in records.operators
        ),
    )
    yield "CONNECTION_IDS", ((task.external, task.correlation) for task in records.tasks if task.external and task.correlation)
    yield (
        "MSTX_EVENTS",
        (
            (
                mark.start_ns,
                mark.end_ns,
                0 if mark.start_ns == mark.end_ns else 2,
                number,
                None,
                text(mark.name),
                (process << 32) + mark.thread,
                (process << 32) + mark.thread,
                text(mark.domain),
                None,
            )
            for number, mark in enumerate(records.marks)
        ),
    )
    yield "STEP_TIME", records.steps
    yield (
        "MEMORY_RECORD",
        (
            (text("PTA"), row.time_ns, row.allocated, row.reserved, None, None, row.device)
            for row in records.memory
            if row.device_type == "npu"
        ),
    )
