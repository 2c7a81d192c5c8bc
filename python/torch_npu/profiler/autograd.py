"""torch.autograd.profiler.profile(use_npu=True): prints the table of the vendor's documents, and offers use_npu_simple.

    with torch.autograd.profiler.profile(use_npu=True) as prof:
        step()
    print(prof)      # Name, Self CPU %, Self CPU, CPU total %, CPU total, CPU time avg, Self NPU %, Self NPU, NPU total, ...

Other profilers print the table of torch.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler import ProfilerActivity, ProfilerState, _supported_activities
from torch.autograd.profiler_util import EventList

from .collect import host_records
from .links import link
from .trace import write_trace

_FIRST = "Self NPU"
_COLUMNS_BEFORE = 5  # between the name and the columns of the device


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of torch's profiler for use_npu=True. It records tasks of the device, or events around operators if torch
    cannot record tasks."""
    records_tasks = hasattr(ProfilerState, "KINETO_PRIVATEUSE1") and ProfilerActivity.PrivateUse1 in _supported_activities()
    return {**given, "use_device": "npu", "use_kineto": given.get("use_kineto", False) or records_tasks}


class NpuProfile(torch.autograd.profiler.profile):
    """The class that profile(use_npu=True) returns."""

    npu_simple = False

    def _ensure_function_events(self) -> None:
        super()._ensure_function_events()
        events = self._function_events
        if events is None or isinstance(events, NpuEvents):
            return
        if self.npu_simple:
            events[:] = [event for event in events if _is_task(event) or (_is_operator(event) and not _has_operator(event))]
        events.__class__ = NpuEvents

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks with times. metric: self_cpu_time_total or self_npu_time_total."""
        super().export_stacks(path, "self_privateuse1_time_total" if metric == "self_npu_time_total" else metric)

    def export_chrome_trace(self, path: str, *args: Any, **kwargs: Any) -> None:
        """Writes a trace. With use_npu_simple it contains only innermost operators and tasks of the device."""
        if not self.npu_simple:
            super().export_chrome_trace(path, *args, **kwargs)
            return
        records = host_records(self.kineto_results)
        nodes = [node for node in link(records).nodes if node.operator.kind != "python"]
        around = {id(above) for node in nodes for above in node.above()}
        records.operators = [node.operator for node in nodes if id(node) not in around]
        write_trace(Path(path), records)


def _is_task(event: Any) -> bool:
    return bool(event.device_type == torch._C._autograd.DeviceType.PrivateUse1)


def _is_operator(event: Any) -> bool:
    """Not a call of AscendCL, nor a Python function."""
    is_call = getattr(event, "activity_type", None) == "privateuse1_runtime"
    return not is_call and not getattr(event, "is_python_function", False)


def _has_operator(event: Any) -> bool:
    return any(_is_operator(child) or _has_operator(child) for child in event.cpu_children)


class NpuEvents(EventList):
    """Events whose table has the column names and the column order of the vendor's documents."""

    def table(self, sort_by: str | None = None, *args: Any, **kwargs: Any) -> str:
        """The table. sort_by may name columns of npu, such as self_npu_time_total, also by torch's names for other devices."""
        column = sort_by and re.sub("npu|cuda|xpu|privateuse1", "device", sort_by)
        if column and self and not hasattr(self[0], column):
            raise ValueError(
                f"table: there is no value {sort_by!r} to sort by; use cpu_time_total, npu_time_total, cpu_memory_usage, "
                "npu_memory_usage, these with self_ before them, or count"
            )
        return document_table(super().table(column, *args, **kwargs))

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        found = super().key_averages(*args, **kwargs)
        found.__class__ = NpuEvents
        return found


def document_table(text: str) -> str:
    """Torch's table with `Self NPU %` before `Self NPU`, and `Input Shape` for `Input Shapes`."""
    lines = text.split("\n")
    rules = [number for number, line in enumerate(lines) if line.startswith("---")]
    if len(rules) < 2:
        return text
    head = rules[0] + 1
    columns = [(found.start(), found.end()) for found in re.finditer("-+", lines[rules[0]])]
    names = [lines[head][start:end].strip() for start, end in columns]
    if "Input Shapes" in names:
        end = columns[names.index("Input Shapes")][1]
        lines[head] = lines[head][:end].replace("Input Shapes", " Input Shape") + lines[head][end:]
    if _FIRST in names:
        (first, middle), (last, end) = columns[names.index(_FIRST)], columns[names.index(_FIRST) + 1]
        line = lines[head]
        lines[head] = line[:first] + line[last:end] + line[middle:last] + line[first:middle] + line[end:]
        # Cells of times contain no blank. So blanks separate the cells of a row, even if a cell is wider than its column.
        row = re.compile(rf"(.{{{columns[0][1]}}}(?:\s+\S+){{{_COLUMNS_BEFORE}}}  )(\s*\S+)(  )(\s*\S+)")
        for number in range(rules[1] + 1, rules[-1]):
            lines[number] = row.sub(r"\1\4\3\2", lines[number], count=1)
    return "\n".join(lines)
