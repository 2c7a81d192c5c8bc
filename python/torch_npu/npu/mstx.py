"""Marks and ranges for a profiler.

    with torch.npu.mstx.annotate("epoch"):
        torch.npu.mstx.mark("first batch", stream=torch.npu.current_stream())

torch_npu.profiler records them with _ExperimentalConfig(mstx=True), and torch.npu.profile always.

A wrong argument gives a warning instead of an error, so that a training continues. Ranges of range_push nest within a domain and
a thread. Ranges of range_start may end in any order and on any thread."""

from __future__ import annotations

import functools
import itertools
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

from .streams import Stream

_thread = threading.local()
_open: dict[tuple[str, int], tuple[str, int, int]] = {}  # open ranges of range_start: message, start and stream
_listeners: list[list[tuple[Any, ...]]] = []  # one list for each running profiler; a row has the fields of profiler.records.Mark
_numbers = itertools.count(1)


def _is_right(name: str, message: Any, stream: Any, domain: Any) -> bool:
    if not isinstance(message, str) or not message:
        return _warn(f"{name}: the message must be a text, but got {message!r}")
    if not isinstance(domain, str) or not domain:
        return _warn(f"{name}: the domain must be a text, but got {domain!r}")
    if stream is not None and not isinstance(stream, Stream):
        return _warn(f"{name}: the stream must be a torch.npu.Stream or None, but got {stream!r}")
    return True


def _warn(text: str) -> bool:
    warnings.warn(f"torch.npu.mstx.{text}", stacklevel=4)
    return False


def _stacks() -> dict[str, list[tuple[str, int, int]]]:
    if not hasattr(_thread, "stacks"):
        _thread.stacks = {}
    return _thread.stacks


def _begin(message: str, stream: Stream | None) -> tuple[str, int, int]:
    return message, time.time_ns(), -1 if stream is None else stream.stream_id


def _unicode(text: str) -> str:
    """Half of a character, which no file in UTF-8 can hold, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _end(begun: tuple[str, int, int], domain: str, end: int | None = None) -> None:
    if _listeners:
        message, start, stream = begun
        message, domain = _unicode(message), _unicode(domain)
        row = (message, threading.get_native_id(), start, time.time_ns() if end is None else end, stream, domain)
        for rows in list(_listeners):
            rows.append(row)


class annotate:
    """A range, as a context manager or a decorator. The default message of a decorator is the name of the function."""

    def __init__(self, message: str = "", stream: Stream | None = None, domain: str = "default") -> None:
        self.message = message
        self.stream = stream
        self.domain = domain
        self._open: list[int] = []  # an object may be entered again in its own block

    def __enter__(self) -> annotate:
        self._open.append(mstx.range_start(self.message, self.stream, self.domain))
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        if range_id := self._open.pop():
            mstx.range_end(range_id, self.domain)
        return False

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with annotate(self.message or function.__name__, self.stream, self.domain):
                return function(*args, **kwargs)

        return inside


class mstx:
    """The functions as static methods. The class needs no objects."""

    @staticmethod
    def mark(message: str, stream: Stream | None = None, domain: str = "default") -> None:
        """Marks a point in time of the host, or of the stream if one is given."""
        if _is_right("mark", message, stream, domain):
            begun = _begin(message, stream)
            _end(begun, domain, begun[1])

    @staticmethod
    def range_push(message: str, stream: Stream | None = None, domain: str = "default") -> int:
        """Begins a range in this thread. Returns the number of ranges open before, or -1 for a wrong argument."""
        if not _is_right("range_push", message, stream, domain):
            return -1
        stack = _stacks().setdefault(domain, [])
        stack.append(_begin(message, stream))
        return len(stack) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """Ends the innermost range of this thread. Returns the number of ranges still open, or -1 if none was open."""
        if not _is_right("range_pop", "-", None, domain):
            return -1
        stack = _stacks().get(domain)
        if not stack:
            _warn(f"range_pop: this thread has no open range in the domain {domain!r}; range_push begins one")
            return -1
        _end(stack.pop(), domain)
        return len(stack)

    @staticmethod
    def range_start(message: str, stream: Stream | None = None, domain: str = "default") -> int:
        """Begins a range. Returns its ID for range_end, or 0 for a wrong argument."""
        if not _is_right("range_start", message, stream, domain):
            return 0
        number = next(_numbers)
        _open[domain, number] = _begin(message, stream)
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        begun = _open.pop((domain, range_id), None) if isinstance(domain, str) and isinstance(range_id, int) else None
        if begun is None:
            _warn(f"range_end: there is no open range {range_id!r} in the domain {domain!r}; give what range_start returned")
            return
        _end(begun, domain)

    @staticmethod
    def mstx_range(message: str, stream: Stream | None = None, domain: str = "default") -> annotate:
        """A decorator: each call of the function is a range."""
        return annotate(message, stream, domain)

    annotate = annotate

    @staticmethod
    def _listen() -> list[tuple[Any, ...]]:
        """Begins to collect marks and finished ranges for a profiler."""
        rows: list[tuple[Any, ...]] = []
        _listeners.append(rows)
        return rows

    @staticmethod
    def _stop_listening(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        _listeners[:] = [each for each in _listeners if each is not rows]
        return rows
