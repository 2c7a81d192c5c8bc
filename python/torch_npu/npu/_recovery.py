"""Stops and restarts a device within the process.

torch.npu.stop_device(0)        # aborts the work of the device; threads that wait for it get an error
torch.npu.restart_device(0)     # the device accepts work again
"""

from __future__ import annotations

from .. import _C
from ._lazy import _lazy_init
from .devices import _existing


def stop_device(device_id: int) -> None:
    """Aborts the queued work of a device. Threads that wait for the work get an error; its results are undefined."""
    _lazy_init()
    _C._npu_abort_device(_existing(device_id))


def restart_device(device_id: int, rebuild_all_resources: bool = False, disable_tensor_unsafe_check: bool = False) -> None:
    """Makes a stopped device ready for new work and drops errors that were not reported. Streams, memory and tensors of softnpu
    survive a stop, so the two flags have no effect."""
    index = _existing(device_id)
    _lazy_init()
    try:
        _C._npu_synchronize(index)
    except RuntimeError:
        _C._npu_synchronize(index)  # a failure is reported once
