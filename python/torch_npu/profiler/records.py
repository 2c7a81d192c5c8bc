"""Records of a profiler, in memory and in a folder. All times are nanoseconds since 1970.

    records = Records(tasks=[Task(name="aclnnAdd", start_ns=..., ...)])
    write_raw(folder, records)      # host/info.json, host/*.jsonl, device_N/tasks.jsonl, host/end.json
    read_raw(folder)                # the records again

The folder has the form of the PROF_* folders of libmsprofiler.so, with more tables for the records of torch's profiler. A table
is a file of JSON Lines: one object for each record. A missing field has its default. An unknown field is skipped. A killed
process or a full disk can cut a file in the middle of a line; such a file is read up to its last whole line."""

from __future__ import annotations

import gc
import json
import marshal
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

VERSION = 1

KERNEL, COPY, FILL, WAIT, RECORD = "kernel", "copy", "fill", "wait", "record"
COLLECTIVE, CALLBACK, OTHER = "collective", "callback", "other"


class Task(NamedTuple):
    """A task of a stream. It has the fields of torch_npu.profiler._records.Task, which may replace it."""

    name: str  # the function of libopapi or of the runtime
    kind: str = KERNEL
    device: int = 0
    stream: int = 0
    task: int = 0
    thread: int = 0
    enqueue_ns: int = 0
    start_ns: int = 0
    end_ns: int = 0
    correlation: int = 0  # the correlation of the host call that launched it; 0: unknown
    external: int = 0  # the ID of torch's operator that launched it; 0: unknown
    bytes: int = 0
    direction: str = ""
    inputs: Any = ()  # (shape, dtype, format) of each tensor
    outputs: Any = ()


class Call(NamedTuple):
    """A call of AscendCL on the host."""

    name: str
    thread: int = 0
    start_ns: int = 0
    end_ns: int = 0
    correlation: int = 0


class Operator(NamedTuple):
    """An operator, a range of the user, or a Python function, on the host."""

    name: str
    thread: int = 0
    start_ns: int = 0
    end_ns: int = 0
    kind: str = "operator"  # operator, annotation or python
    shapes: Any = ()
    dtypes: Any = ()
    stack: Any = ()  # innermost first; for a Python function: the line that called it
    sequence: int = -1
    device_ns: int = 0  # time on the device between events around the operator; 0 if there are tasks with times
    flops: int = 0
    id: int = 0  # equal to Task.external of its tasks


class Mark(NamedTuple):
    """A range of mstx, or a mark if both times are equal."""

    name: str
    thread: int = 0
    start_ns: int = 0
    end_ns: int = 0
    stream: int = -1
    domain: str = "default"


class Memory(NamedTuple):
    """An allocation (bytes > 0) or a release (bytes < 0), with the totals after it."""

    device_type: str
    device: int = 0
    address: int = 0
    bytes: int = 0
    allocated: int = 0
    reserved: int = 0
    time_ns: int = 0
    thread: int = 0


class Step(NamedTuple):
    number: int
    start_ns: int
    end_ns: int


@dataclass
class Records:
    tasks: list[Task] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    dropped: int = 0  # records that did not fit
    unfinished: int = 0  # tasks that had not ended

    def span(self) -> tuple[int, int]:
        """The first and the last time of the records; (0, 0) if there are none."""
        first, last = [], []
        for table in (self.tasks, self.calls, self.operators, self.marks, self.steps):
            if table:
                first.append(min(row.start_ns for row in table))  # type: ignore[attr-defined]
                last.append(max(row.end_ns for row in table))  # type: ignore[attr-defined]
        if self.memory:
            first.append(min(row.time_ns for row in self.memory))
            last.append(max(row.time_ns for row in self.memory))
        return (min(first), max(last)) if first else (0, 0)

    def what_is_missing(self) -> str:
        """The reason why the records are incomplete; "" if they are complete."""
        if not self.info.get("complete", True):
            return "the program ended while it was profiled"
        parts = [f"{self.dropped} did not fit"] if self.dropped else []
        parts += [f"{self.unfinished} tasks had not ended"] if self.unfinished else []
        return ", ".join(parts)

    def devices(self) -> list[int]:
        return sorted({task.device for task in self.tasks})

    def step_of(self, time_ns: int) -> int | str:
        """The number of the step that a time belongs to, or "" outside of all steps."""
        index = bisect_right(self.steps, time_ns, key=lambda step: step.start_ns) - 1
        return self.steps[index].number if index >= 0 and time_ns < self.steps[index].end_ns else ""


_REQUIRED = object()
_INFO = {"process": int, "rank": int, "fallbacks": dict, "config": dict, "governor": str, "threads": int, "processors": int}
_HOST_TABLES: dict[str, Any] = {"calls": Call, "operators": Operator, "marks": Mark, "memory": Memory, "steps": Step}


class NotAProfile(ValueError):
    """The folder has no records, or records of another version. The message names the folder."""


def said(error: Exception) -> str:
    """The sentence of an error. An error of the system that no sentence was made for has the name of a file."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Switches garbage collection off. Collections visit every record many times and would double the time of an export."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@without_garbage_collection()
def write_raw(folder: Path, records: Records) -> None:
    """Writes the tables. Raises OSError with the path; files written until then can be read."""
    path = folder
    try:
        (folder / "host").mkdir(parents=True, exist_ok=True)
        path = folder / "host" / "info.json"
        path.write_text(json.dumps({"version": VERSION, **records.info}, indent=1, default=str) + "\n")
        for name, row in _HOST_TABLES.items():
            path = folder / "host" / f"{name}.jsonl"
            _write_lines(path, row._fields, getattr(records, name))
        for device in records.devices() or [0]:
            path = folder / f"device_{device}" / "tasks.jsonl"
            path.parent.mkdir(exist_ok=True)
            _write_lines(path, Task._fields, (task for task in records.tasks if task.device == device))
        path = folder / "host" / "end.json"
        ended = {"end_ns": records.span()[1], "dropped": records.dropped, "unfinished": records.unfinished}
        path.write_text(json.dumps(ended) + "\n")
    except OSError as error:
        raise OSError(error.errno, f"the profile cannot be written to {path}: {error.strerror}") from None


def add_raw(folder: Path, records: Records) -> None:
    """Adds tables and settings of the host to a folder that libmsprofiler has written."""
    path = folder / "host" / "info.json"
    try:
        for name, row in _HOST_TABLES.items():
            if rows := getattr(records, name):
                path = folder / "host" / f"{name}.jsonl"
                _write_lines(path, row._fields, rows, "a")
        path = folder / "host" / "info.json"
        part = path.with_name(".info.json")
        part.write_text(json.dumps(_read_info(folder) | records.info, indent=1, default=str) + "\n")
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"the profile cannot be written to {path}: {error.strerror}") from None


@without_garbage_collection()
def read_raw(folder: Path) -> Records:
    records, shared = Records(info=_read_info(folder)), Shared()
    for name, row in _HOST_TABLES.items():
        setattr(records, name, list(_read_lines(folder / "host" / f"{name}.jsonl", row, shared)))
    for path in sorted(folder.glob("device_*/tasks.jsonl")):
        records.tasks += _read_lines(path, Task, shared)
    _read_end(folder / "host" / "end.json", records)
    return records


def _read_end(path: Path, records: Records) -> None:
    """Reads the numbers of missing records. If the file is missing or cut, the program ended while it was profiled."""
    try:
        ended = json.loads(path.read_text(encoding="utf-8"))
        records.dropped, records.unfinished = (max(int(ended[name]), 0) for name in ("dropped", "unfinished"))
    except (OSError, *_DAMAGE, OverflowError):
        records.info["complete"] = False


def _read_info(folder: Path) -> dict[str, Any]:
    path = folder / "host" / "info.json"
    if not path.is_file():
        raise NotAProfile(f"{folder} contains no profile of torch_npu: it has no file host/info.json")
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
        version = info.get("version")
        if not all(_is(kind, info.get(name, kind())) for name, kind in _INFO.items()):
            raise ValueError
        if not all(_is(int, count) for count in [info.get("config", {}).get("bits", 0), *info.get("fallbacks", {}).values()]):
            raise ValueError
    except (ValueError, AttributeError, RecursionError):
        raise NotAProfile(f"{path} is damaged; record the profile again") from None
    if version is None:
        raise NotAProfile(f"{folder} contains no profile of torch_npu: {path} has no version")
    if version != VERSION:
        raise NotAProfile(
            f"{folder} was written by another version of torch_npu (format {version}, this one reads {VERSION}); "
            "use that version, or record the profile again"
        )
    return info


def _is(kind: type, value: Any) -> bool:
    return type(value) is kind and not (isinstance(value, int) and abs(value) > _LARGEST)


class Shared:
    """Returns the first text or list that is equal to the given one, so that a million records need little memory."""

    def __init__(self) -> None:
        self._seen: dict[Any, Any] = {}

    def __call__(self, value: Any) -> Any:
        if type(value) is str:
            return self._seen.setdefault(value, value)
        return self._seen.setdefault(marshal.dumps(value, 2), value) if value else ()


class ById:
    """Calls a function once for each object. Records share equal texts and lists, so this saves most calls."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._found: dict[int, tuple[Any, Any]] = {}

    def __call__(self, value: Any) -> Any:
        found = self._found.get(id(value))
        if found is None:
            found = self._found[id(value)] = (value, self._function(value))
        return found[1]


def _write_lines(path: Path, fields: tuple[str, ...], rows: Iterable[tuple[Any, ...]], mode: str = "w") -> None:
    encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
    with path.open(mode) as file:
        file.writelines(f"{encode({name: getattr(row, name) for name in fields})}\n" for row in rows)


def _read_lines(path: Path, row: Any, shared: Shared) -> Iterator[Any]:
    if not path.is_file():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while lines := list(islice(file, 1000)):
            if not lines[-1].endswith("\n"):
                lines.pop()  # a cut line: the writer ended here
            try:
                columns = _columns(lines, row, shared)
            except _DAMAGE:
                raise NotAProfile(
                    f"{path} is damaged at the line {_damaged(lines, row)[:40]!r}; record the profile again"
                ) from None
            yield from map(row._make, zip(*columns, strict=True))


def _columns(lines: list[str], row: Any, shared: Shared) -> list[Any]:
    """The fields of the lines as columns. Raises one of _DAMAGE if a line is not a record."""
    text = f"[{','.join(lines)}]"
    found = json.loads(text)
    if "\\ud" in text or "\\uD" in text:  # a half of a surrogate pair becomes a question mark, because UTF-8 cannot hold it
        found = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return [_column(found, row, name, shared) for name in row._fields]


def _column(found: list[dict[str, Any]], row: Any, name: str, shared: Shared) -> list[Any]:
    default = row._field_defaults.get(name, _REQUIRED)
    values = [each[name] for each in found] if default is _REQUIRED else [each.get(name, default) for each in found]
    kind, types = _kinds(row)[name], set(map(type, values))
    if kind is int:
        if not types <= {int} or (values and not -_LARGEST <= min(values) <= max(values) <= _LARGEST):
            raise ValueError(name)
        return values
    if not types <= ({str} if kind is str else {list, tuple}):
        raise ValueError(name)
    values = [shared(value) for value in values]
    if (is_right := _LISTS.get(name)) and not all(map(is_right, {id(value): value for value in values}.values())):
        raise ValueError(name)
    return values


_kinds = cache(get_type_hints)


def _are_texts(values: Any) -> bool:
    return all(type(value) is str for value in values)


def _are_tensors(values: Any) -> bool:
    return all(len(value) == 3 and type(value[0]) is list and _are_texts(value[1:]) for value in values)


_LARGEST = (1 << 63) - 1  # the largest integer of SQLite
_DAMAGE = (ValueError, KeyError, AttributeError, TypeError, RecursionError)
_LISTS: dict[str, Callable[[Any], bool]] = {
    "dtypes": _are_texts,
    "stack": _are_texts,
    "inputs": _are_tensors,
    "outputs": _are_tensors,
}


def _damaged(lines: list[str], row: Any) -> str:
    for line in lines:
        try:
            _columns([line], row, Shared())
        except _DAMAGE:
            return line
    return ""
