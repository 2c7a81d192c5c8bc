"""Lets autograd's device threads come to rest while Python is still alive.

When backward() returns, the device's thread may hold the last reference to a Python object of that call: torch keeps the caller's
context there (pytorch/pytorch#180701). If the interpreter ends before the thread has let go of it, the thread dies while it waits
for the interpreter's lock, and takes the process with it. One more backward() on each device, whose objects somebody else holds
too, is begun only after the thread has let go.
"""

import atexit
import contextvars
from pathlib import Path

import torch

from .. import _C
from ._lazy import is_initialized


@atexit.register
def _rest_autograd_threads():
    if not is_initialized() or not _has_autograd_threads():
        return
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
