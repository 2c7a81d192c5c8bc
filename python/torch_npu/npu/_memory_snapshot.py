"""What device memory holds and how that came about, in the layout of torch.cuda.memory._snapshot():

    torch.npu.memory._record_memory_history(max_entries=100_000)
    ...
    torch.npu.memory._dump_snapshot("memory.pickle")     # python -m torch.cuda._memory_viz trace_plot memory.pickle

Functions are those of torch.npu.memory. Recording is off at first.
"""

import inspect
import os
import pickle
import sys
import time
import warnings

from .. import _C
from ._utils import _get_device_index


def memory_snapshot():
    """The segments that the device gave, of all devices, each with its blocks."""
    return _snapshot()["segments"]


def _snapshot(device=None):
    """Segments, and what _record_memory_history kept: {"segments": [...], "device_traces": [one list per device], ...}.

    device: only what is of that device; the other traces are empty then."""
    snapshot = _C._npu_memory_snapshot(None)
    if device is not None:
        index = _get_device_index(device)
        snapshot["segments"] = [segment for segment in snapshot["segments"] if segment["device"] == index]
        snapshot["device_traces"] = [trace if i == index else [] for i, trace in enumerate(snapshot["device_traces"])]
    return snapshot


def _dump_snapshot(filename="dump_snapshot.pickle"):
    """Writes _snapshot() as a file that torch.cuda._memory_viz and pytorch.org/memory_viz read."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(enabled="all", *args, **kwargs):
    """Keeps the stacks of live memory ("state"), and with "all" every event of the allocator as well; None stops and forgets.

    context: for what stacks are taken: None, "state" (live memory), "alloc" (allocations in the trace too), "all" (frees too).
    stacks: "python", or "all" for C++ frames too, which take long to look up.
    max_entries: events kept per device; older ones are forgotten.
    device: accepted as elsewhere; recording is for all devices.
    A bool is the older form: (enabled, record_context=True, trace_alloc_max_entries=1, trace_alloc_record_context=False,
    device=None, record_context_cpp=False)."""
    if isinstance(enabled, bool):
        return _record_legacy(enabled, *args, **kwargs)
    return _record(enabled, *args, **kwargs)


def _record(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None, clear_history=False):
    _check("enabled", enabled, (None, "state", "all"))
    _check("context", context, (None, "state", "alloc", "all"))
    _check("stacks", stacks, ("python", "all"))
    if not isinstance(max_entries, int) or max_entries < 1:
        raise ValueError(f"max_entries must be a whole number from 1, but is {max_entries!r}")
    if device is not None:
        _get_device_index(device)
    _C._npu_record_memory_history(enabled, context, stacks == "all", max_entries, clear_history)


def _record_legacy(
    enabled,
    record_context=True,
    trace_alloc_max_entries=1,
    trace_alloc_record_context=False,
    device=None,
    record_context_cpp=False,
    clear_history=False,
):
    context = "alloc" if trace_alloc_record_context else "state" if record_context else None
    stacks = "all" if record_context_cpp else "python"
    _record("all" if enabled else None, context, stacks, trace_alloc_max_entries, device, clear_history)


_record_memory_history.__signature__ = inspect.signature(_record)


def _check(name, value, allowed):
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, but is {value!r}")


def _start_oom_snapshots():
    """What OOM_SNAPSHOT_ENABLE asks for."""
    enabled, with_history, folder = _C._npu_oom_snapshot()
    if not enabled:
        return
    if with_history:
        _record_memory_history(stacks="python")

    def write(device, requested, total, free):
        path = os.path.join(folder, f"oom_snapshot_{os.getpid()}_{time.strftime('%Y%m%d%H%M%S')}.pickle")
        try:
            _dump_snapshot(path)
        except OSError as error:
            warnings.warn(f"the snapshot of OOM_SNAPSHOT_ENABLE could not be written: {error}", stacklevel=2)

    _C._npu_attach_out_of_memory_observer(write)
