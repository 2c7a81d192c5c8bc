"""The operators in a file that a profiler of PyTorch wrote.

    calls = read_profile(Path("trace.json"))        # a Chrome trace of torch.profiler or torch.autograd.profiler, also .gz
    calls = read_profile(Path("table.txt"))         # the printed key_averages().table()

An operator that another one with a kernel of npu called is left out of a trace: npu does not call it. A table has no nesting.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from .operators import overloads
from .record import Calls, Key, Record

_C_TYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16", "long int": "int64",
    "long": "int64", "int": "int32", "short int": "int16", "short": "int16", "signed char": "int8", "unsigned char": "uint8",
    "bool": "bool", "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
}  # fmt: skip


class NotAProfile(ValueError):
    """The file has no operators of PyTorch."""


def is_profile(path: Path) -> bool:
    """By name: everything but Python sources."""
    return path.suffix not in (".py", ".pyw")


def read_profile(path: Path) -> Record:
    """NotAProfile says what is wrong with the file; OSError if it cannot be read."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise NotAProfile(f"{path} is a damaged gzip file: {error}") from None
    text = content.decode("utf-8", errors="replace")
    if text.lstrip()[:1] in ("{", "["):
        try:
            found = _of_trace(json.loads(text))
        except json.JSONDecodeError as error:
            raise NotAProfile(f"{path} is no valid JSON: {error}") from None
    else:
        found = _of_table(text)
    if not found.calls:
        raise NotAProfile(
            f"{path} holds no operators; give a Chrome trace, the text of prof.key_averages().table(), a Python script or "
            f"module:factory"
        )
    return found


def _operator(name: str) -> str | None:
    """`aten::add` for itself, and for `add` of PyTorch before 1.8."""
    if re.fullmatch(r"\w+::\w+", name):
        return name if overloads(name) or name.startswith("aten::") else None
    return f"aten::{name}" if re.fullmatch(r"\w+", name) and overloads(f"aten::{name}") else None


def _of_trace(content: Any) -> Record:
    events = content.get("traceEvents", []) if isinstance(content, dict) else content
    record = Record()
    for event in _outermost(event for event in events if isinstance(event, dict) and event.get("ph") == "X"):
        operator = _operator(str(event.get("name", "")))
        if operator is not None:
            types = (event.get("args") or {}).get("Input type") or []
            dtype = next((_C_TYPES[each] for each in types if isinstance(each, str) and each in _C_TYPES), "")
            _add(record, operator, dtype, 1)
    return record


def _outermost(events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Without events inside of an operator that has a kernel of npu. Events of a thread nest in time."""
    end_of: dict[tuple[Any, Any], float] = {}
    for event in sorted(events, key=lambda event: (float(event.get("ts", 0)), -float(event.get("dur", 0)))):
        thread, start = (event.get("pid"), event.get("tid")), float(event.get("ts", 0))
        if start < end_of.get(thread, float("-inf")):
            continue
        yield event
        operator = _operator(str(event.get("name", "")))
        if operator is not None and _runs_whole(operator):
            end_of[thread] = start + float(event.get("dur", 0))


def _runs_whole(operator: str) -> bool:
    """Whether npu has one kernel for it, or PyTorch's own for every device, so that what the CPU calls inside says nothing."""
    keys = ("PrivateUse1", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return any(has(form, key) for form in overloads(operator) for key in keys)


def _of_table(text: str) -> Record:
    """Rows of a printed table: the name first, the number of calls last or before the shapes."""
    record = Record()
    calls_end = None
    for line in text.splitlines():
        if (head := re.search(r"# of Calls|Number of Calls", line)) is not None:
            calls_end = head.end()
        words = line.split()
        operator = _operator(words[0]) if len(words) > 3 and re.search(r"\d(us|ms|s|%)?$", words[1]) else None
        if operator is None:
            continue
        counted = re.search(r"(\d+)\s*$", line[:calls_end]) if calls_end else None
        _add(record, operator, "", int(counted[1]) if counted else 1)
    return record


def _add(record: Record, operator: str, dtype: str, count: int) -> None:
    calls: Calls = record.calls[Key(operator, dtype, "strided", False)]
    calls.count += count
