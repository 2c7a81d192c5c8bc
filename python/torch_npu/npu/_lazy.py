"""Initialisation at first use. torch calls `_lazy_init` too, before it makes the first tensor on npu.

`pin_memory()` and `torch.Stream("npu")` start the device from C++, without this module. So calls queued by `_lazy_call` may still
be pending while the device is in use; the next call of this module makes them first."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from .. import _C

_lock = threading.RLock()  # held while the queued calls are made
_waiting: list[Callable[[], Any]] = []  # oldest first; guarded by _lock
_is_calling = False  # guarded by _lock


def init() -> None:
    """Initialises the device library now, instead of at first use."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether this process has started the device. False in a forked child, also if the parent has."""
    return _C._npu_is_initialized() and not _is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    return _C._npu_is_in_bad_fork()


def _lazy_init() -> None:
    _C._npu_init()
    if _waiting:
        _make_waiting_calls()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Calls it now if the device is started, else right after the start. Queued calls are made in their order.

    kwargs are those of torch.cuda, where they mark calls that replace earlier ones. They have no effect."""
    with _lock:
        if not is_initialized():
            _waiting.append(callable)
            return
    _make_waiting_calls()
    callable()


def _make_waiting_calls() -> None:
    """Makes each queued call once, on one thread. Other threads wait until that is done. A queued call may use the device."""
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


def _forget_threads() -> None:
    """In a child of fork(): the thread that held the lock does not exist, so the lock is made anew."""
    global _lock, _is_calling
    _lock, _is_calling = threading.RLock(), False


os.register_at_fork(after_in_child=_forget_threads)
