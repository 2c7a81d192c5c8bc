"""What becomes of failures that nobody was told of, and of other threads, when Python ends.

Failures are printed, and an exit status of 0 becomes 1 (csrc/core/exit_report.h). That is the first thing done: what follows uses
the device. A child of multiprocessing may end by os._exit(), without atexit, so it reports when its function has returned.

A thread that comes for the interpreter's lock when the interpreter is gone is unwound by Python, which C++ answers by ending the
process: a daemon thread that calls any operator of torch, on the CPU too, makes the program abort at its end. `_C` lets such
threads sleep instead.

At the very end torch waits up to ten seconds for autograd's device threads, so these had better be at rest, and none of them
asleep. When backward() returns, the device's thread may hold the last reference to a Python object of that call: torch keeps the
caller's context there (pytorch/pytorch#180701), and to let go of it the thread needs the interpreter. One more backward() on each
device, whose objects somebody else holds too, is begun only after the thread has let go. Where daemon threads go on calling
backward(), nothing brings them to rest, and the wait is cut short.

In a forked child these threads do not exist, and torch would wait for them all the same.
"""

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
_LAST = -1000  # of what multiprocessing does at the end of a process, after it has joined the process's own children


@atexit.register
def _end():
    if is_initialized():
        _report_failures()
    _prepare_threads()


def _report_failures():
    """Prints failures of the device that no call has reported; whether there were any."""
    was_interrupted = isinstance(getattr(sys, "last_value", None), KeyboardInterrupt)
    try:
        return _C._npu_report_failures_at_exit(0 if was_interrupted else _PATIENCE)
    except KeyboardInterrupt:
        return _C._npu_report_failures_at_exit(0)


def _report_failures_of_child():
    if multiprocessing.parent_process() is None or not is_initialized() or not _report_failures():
        return
    reason = sys.exc_info()[1]  # why the function of the process has ended
    if reason is None or (isinstance(reason, SystemExit) and reason.code in (None, 0)):
        raise SystemExit(1)


def _watch_child(_=None):
    multiprocessing.util.Finalize(None, _report_failures_of_child, exitpriority=_LAST)


_watch_child()
multiprocessing.util.register_after_fork(_watch_child, _watch_child)  # a child forgets what was registered before


def _prepare_threads():
    if _is_in_bad_fork():
        torch.autograd.Variable._execution_engine.is_checkpoint_valid()  # whoever asks the engine makes it look for its threads
    if not is_initialized():
        return
    _C._park_threads_at_exit()
    if not _has_autograd_threads():
        return
    if any(thread.daemon for thread in threading.enumerate()):
        os.environ.setdefault("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "1")
    _rest_autograd_threads()


def _rest_autograd_threads():
    torch._C._stash_obj_in_tls("context", contextvars.copy_context())  # stays until this thread, the last, ends
    for index in range(_C._npu_device_count()):
        if _C._npu_memory_stats(index)["segment"]["all"]["allocated"] > 0:
            _run_backward(torch.device("npu", index))


def _has_autograd_threads():
    return any(task.read_text().startswith("pt_autograd") for task in Path("/proc/self/task").glob("*/comm"))


def _run_backward(device):
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
        pass  # of a device that failed nothing more can be asked
