"""SIGTERM ends a process without `finally` and without atexit: finishes files first.

ending = Sigterm(capture.stop)
ending.catch()              # does nothing outside of the main thread, or if the program has a handler of its own
ending.restore()
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_AGAIN = 0.01  # seconds
_caught: list[Sigterm] = []


class Sigterm:
    """Calls `finish` at SIGTERM, except in a forked child. Then the signal ends the process."""

    def __init__(self, finish: Callable[[], Any]) -> None:
        self._finish = finish
        self._process = 0

    def catch(self) -> None:
        known = signal.getsignal(signal.SIGTERM)
        if self in _caught or threading.current_thread() is not threading.main_thread() or known not in (signal.SIG_DFL, _end):
            return
        self._process = os.getpid()
        _caught.append(self)
        signal.signal(signal.SIGTERM, _end)

    def restore(self) -> None:
        if self not in _caught:
            return
        _caught.remove(self)
        is_main = threading.current_thread() is threading.main_thread()
        if not _caught and is_main and signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def finish(self) -> None:
        if self._process == os.getpid():
            self._finish()


def _end(number: int, frame: FrameType | None) -> None:
    if _is_in_h5py(frame):  # it holds a lock that a writer needs: again, when it has returned
        threading.Timer(_AGAIN, os.kill, (os.getpid(), number)).start()
        return
    for each in _caught[::-1]:
        each.finish()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _is_in_h5py(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] == "h5py":
            return True
        frame = frame.f_back
    return False
