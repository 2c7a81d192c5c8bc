"""Initialisation at first use. torch calls `_lazy_init` too, before it makes the first tensor on npu."""

from .. import _C

_waiting = {}


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
    while _waiting:
        _waiting.pop(next(iter(_waiting)))()


def _lazy_call(function, replaces=None):
    """Calls it now if the device is in use, else when it comes to be: seeding must not be what starts a device.

    replaces: a name; of the calls that wait under one name only the last is made."""
    if is_initialized():
        function()
        return
    name = replaces or object()
    _waiting.pop(name, None)
    _waiting[name] = function
