"""Snapshots and the history of device memory, in the layout of torch.cuda.memory._snapshot():

    torch.npu.memory._record_memory_history(max_entries=100_000)
    ...
    torch.npu.memory._dump_snapshot("memory.pickle")     # python -m torch.cuda._memory_viz trace_plot memory.pickle

torch.npu.memory exports these functions. Recording is off by default.
"""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from .. import _C
from ._utils import _get_device_index

if TYPE_CHECKING:
    from torch.types import Device


def memory_snapshot() -> list[dict[str, Any]]:
    """The segments of all devices, each with its blocks."""
    return _snapshot()["segments"]


def _snapshot(device: Device = None) -> dict[str, Any]:
    """The segments and the recorded history: {"segments": [...], "device_traces": [one list per device], ...}.

    device: limits both to that device; the traces of the others are empty."""
    snapshot = _C._npu_memory_snapshot(None)
    if device is not None:
        index = _get_device_index(device)
        snapshot["segments"] = [segment for segment in snapshot["segments"] if segment["device"] == index]
        snapshot["device_traces"] = [trace if i == index else [] for i, trace in enumerate(snapshot["device_traces"])]
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes _snapshot() as a file that torch.cuda._memory_viz and pytorch.org/memory_viz read."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled: str | bool | None = "all", *args: Any, **kwargs: Any) -> None:
    """Records the stacks of live memory ("state"), and with "all" also every event of the allocator. None stops and clears.

    context: the events that stacks are recorded for: None, "state" (live memory), "alloc" (also traced allocations), "all" (also
    frees).
    stacks: "python", or "all" for C++ frames too, whose symbols take long to look up.
    max_entries: the number of events kept per device; older ones are dropped.
    device: checked, but all devices are recorded.
    A bool is the older form: (enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False,
    device=None, record_context_cpp=False)."""
    if isinstance(enabled, bool):
        return _record_legacy(enabled, *args, **kwargs)
    return _record(enabled, *args, **kwargs)


def _record(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    clear_history: bool = False,
) -> None:
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, (None, "state", "alloc", "all"))
    _check("stacks", stacks, ("python", "all"))
    if not isinstance(max_entries, int) or max_entries < 1:
        raise ValueError(f"max_entries must be a whole number from 1, but is {max_entries!r}")
    if device is not None:
        _get_device_index(device)
    _C._npu_record_memory_history(enabled, context, stacks == "all", max_entries, clear_history)


def _record_legacy(
    enabled: bool,
    record_context: bool = True,
    trace_alloc_max_entries: int = 1,
    trace_alloc_record_context: bool = False,
    device: Device = None,
    record_context_cpp: bool = False,
    clear_history: bool = False,
) -> None:
    context = "alloc" if trace_alloc_record_context else "state" if record_context else None
    stacks = "all" if record_context_cpp else "python"
    _record("all" if enabled else None, context, stacks, trace_alloc_max_entries, device, clear_history)


_record_memory_history.__signature__ = inspect.signature(_record)  # type: ignore[attr-defined]


def _check(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, but is {value!r}")


def _start_oom_snapshots() -> None:
    """Writes a snapshot at each out-of-memory error, if OOM_SNAPSHOT_ENABLE is set."""
    enabled, with_history, folder = _C._npu_oom_snapshot()
    if not enabled:
        return
    if with_history:
        _record_memory_history(stacks="python")

    def write(device: int, requested: int, total: int, free: int) -> None:
        path = os.path.join(folder, f"oom_snapshot_{os.getpid()}_{time.strftime('%Y%m%d%H%M%S')}.pickle")
        try:
            _dump_snapshot(path)
        except OSError as error:
            warnings.warn(f"the snapshot of OOM_SNAPSHOT_ENABLE could not be written: {error}", stacklevel=2)

    _C._npu_attach_out_of_memory_observer(write)
