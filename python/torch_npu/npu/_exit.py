"""The end of the process: reports device failures that no call has raised, and prepares the other threads.

1. Failures are printed, and an exit status of 0 becomes 1 (csrc/core/exit_report.h). This is done first, because the next steps
   use the device. A child of multiprocessing may end by os._exit(), which skips atexit, so it reports after its function
   returned.
2. A thread that requests the GIL after the interpreter has ended is unwound by Python, and C++ then aborts the process. A daemon
   thread that calls any operator of torch, even on the CPU, would cause that. `_C` lets such threads sleep instead.
3. torch waits up to ten seconds for autograd's device threads, so they must be idle and not asleep. When backward() returns, the
   device's thread may still hold the last reference to a Python object of that call, because torch stores the caller's context in
   the thread (pytorch/pytorch#180701), and the thread needs the GIL to release it. One more backward() on each device, whose
   objects are also referenced elsewhere, starts only after the thread has released the old context. If daemon threads keep
   calling backward(), the device threads never become idle, so the wait is shortened.

In a forked child these threads do not exist, but torch would wait for them.
"""

from __future__ import annotations

import atexit
import contextvars
import multiprocessing.util
import os
import sys
import threading
from pathlib import Path

import torch

from .. import _C
from ._lazy import _is_in_bad_fork, is_initialized

_PATIENCE = 2000  # milliseconds to wait for streams that work
_LAST = -1000  # the priority of the last finalizer of multiprocessing, after it has joined the children of the process


@atexit.register
def _end() -> None:
    if is_initialized():
        _report_failures()
    _prepare_threads()


def _report_failures() -> bool:
    """Prints failures of the device that no call has reported. Returns whether there were any."""
    was_interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    try:
        return _C._npu_report_failures_at_exit(0 if was_interrupted else _PATIENCE)
    except KeyboardInterrupt:
        return _C._npu_report_failures_at_exit(0)


def _report_failures_of_child() -> None:
    if multiprocessing.parent_process() is None or not is_initialized() or not _report_failures():
        return
    reason = sys.exc_info()[1]  # why the function of the process has ended
    if reason is None or (isinstance(reason, SystemExit) and reason.code in (None, 0)):
        raise SystemExit(1)


def _watch_child(_: object = None) -> None:
    multiprocessing.util.Finalize(None, _report_failures_of_child, exitpriority=_LAST)


_watch_child()
multiprocessing.util.register_after_fork(_watch_child, _watch_child)  # multiprocessing clears the finalizers in a child


def _prepare_threads() -> None:
    if _is_in_bad_fork():
        torch.autograd.Variable._execution_engine.is_checkpoint_valid()  # any call makes the engine notice the fork
    if not is_initialized():
        return
    _C._park_threads_at_exit()
    if not _has_autograd_threads():
        return
    if any(thread.daemon for thread in threading.enumerate()):
        os.environ.setdefault("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "1")
    _rest_autograd_threads()


def _rest_autograd_threads() -> None:
    torch._C._stash_obj_in_tls("context", contextvars.copy_context())  # this thread holds the reference until it ends, last
    for index in range(_C._npu_device_count()):
        if _C._npu_memory_stats(index)["segment"]["all"]["allocated"] > 0:
            _run_backward(torch.device("npu", index))


def _has_autograd_threads() -> bool:
    return any(task.read_text().startswith("pt_autograd") for task in Path("/proc/self/task").glob("*/comm"))


def _run_backward(device: torch.device) -> None:
    try:
        with torch.enable_grad():
            leaf = torch.zeros((), device=device, requires_grad=True)
            torch.autograd.Variable._execution_engine.run_backward(
                (leaf.view(1).sum(),),
                (torch.ones((), device=device),),
                False,
                False,
                (),
                allow_unreachable=True,
                accumulate_grad=True,
            )
    except RuntimeError:
        pass  # the device has failed
