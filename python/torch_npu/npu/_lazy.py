"""Initialisation at first use. torch calls `_lazy_init` too, before it makes the first tensor on npu.

C++ also starts the device, without Python: `pin_memory()` and `torch.Stream("npu")` do. So calls that wait for the start may
still wait when the device is in use; they are made before the next call that comes here."""

import os
import threading

from .. import _C

_lock = threading.RLock()  # held while waiting calls are made
_waiting = []  # oldest first; guarded by _lock
_is_calling = False  # guarded by _lock


def init():
    """Initialises the device library now, instead of at first use."""
    _lazy_init()


def is_initialized():
    """Whether the device was used, here and not in a process that this one was forked from."""
    return _C._npu_is_initialized() and not _is_in_bad_fork()


def _is_in_bad_fork():
    return _C._npu_is_in_bad_fork()


def _lazy_init():
    _C._npu_init()
    if _waiting:
        _make_waiting_calls()


def _lazy_call(callable, **kwargs):
    """Calls it now if the device is in use, else when it comes to be. Calls are made in the order in which they came here.

    kwargs are those of torch.cuda, which name calls that replace earlier ones; here they change nothing."""
    with _lock:
        if not is_initialized():
            _waiting.append(callable)
            return
    _make_waiting_calls()
    callable()


def _make_waiting_calls():
    """Makes them once, on one thread. Other threads return when that is done; a waiting call may use the device itself."""
    global _is_calling
    with _lock:
        if _is_calling:
            return
        _is_calling = True
        try:
            while _waiting:
                try:
                    _waiting[0]()
                finally:
                    del _waiting[0]
        finally:
            _is_calling = False


def _forget_threads():
    """In a child of fork(): whoever held the lock is not there to release it."""
    global _lock, _is_calling
    _lock, _is_calling = threading.RLock(), False


os.register_at_fork(after_in_child=_forget_threads)
