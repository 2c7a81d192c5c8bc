"""Marks and ranges for a profiler.

    with torch.npu.mstx.annotate("epoch"):
        torch.npu.mstx.mark("first batch", stream=torch.npu.current_stream())

No profiler records them yet: arguments are checked, and nothing else happens. A wrong argument is a warning, never an error, so
that a training continues. Ranges of range_push nest within a domain and thread. Ranges of range_start may end in any order and
thread.
"""

from __future__ import annotations

import functools
import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any, Literal

from .._api_status import no_op
from .streams import Stream

_REASON = "no profiler records marks and ranges yet; use torch.profiler.record_function with torch.profiler"

_thread = threading.local()
_open = set()  # (domain, range_id) of range_start
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


def _depths() -> dict[str, int]:
    if not hasattr(_thread, "depths"):
        _thread.depths = {}
    return _thread.depths


class annotate:
    """A range, as a context manager or a decorator. The default message of a decorator is the name of the function."""

    def __init__(self, message: str = "", stream: Stream | None = None, domain: str = "default") -> None:
        self.message = message
        self.stream = stream
        self.domain = domain

    def __enter__(self) -> annotate:
        self.range_id = mstx.range_start(self.message, self.stream, self.domain)
        return self

    def __exit__(self, *_: object) -> Literal[False]:
        if self.range_id:
            mstx.range_end(self.range_id, self.domain)
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
    @no_op(_REASON)
    def mark(message: str, stream: Stream | None = None, domain: str = "default") -> None:
        """Marks a point in time of the host, or of the stream if one is given."""
        _is_right("mark", message, stream, domain)

    @staticmethod
    @no_op(_REASON)
    def range_push(message: str, stream: Stream | None = None, domain: str = "default") -> int:
        """Begins a range in this thread. Returns the number of ranges open before, or -1 for a wrong argument."""
        if not _is_right("range_push", message, stream, domain):
            return -1
        depths = _depths()
        depths[domain] = depths.get(domain, 0) + 1
        return depths[domain] - 1

    @staticmethod
    @no_op(_REASON)
    def range_pop(domain: str = "default") -> int:
        """Ends the innermost range of this thread. Returns the number of ranges still open, or -1 if none was open."""
        if not _is_right("range_pop", "-", None, domain):
            return -1
        depths = _depths()
        if not depths.get(domain):
            _warn(f"range_pop: this thread has no open range in the domain {domain!r}; range_push begins one")
            return -1
        depths[domain] -= 1
        return depths[domain]

    @staticmethod
    @no_op(_REASON)
    def range_start(message: str, stream: Stream | None = None, domain: str = "default") -> int:
        """Begins a range. Returns its ID for range_end, or 0 for a wrong argument."""
        if not _is_right("range_start", message, stream, domain):
            return 0
        number = next(_numbers)
        _open.add((domain, number))
        return number

    @staticmethod
    @no_op(_REASON)
    def range_end(range_id: int, domain: str = "default") -> None:
        if (domain, range_id) not in _open:
            _warn(f"range_end: there is no open range {range_id!r} in the domain {domain!r}; give what range_start returned")
            return
        _open.remove((domain, range_id))

    @staticmethod
    @no_op(_REASON)
    def mstx_range(message: str, stream: Stream | None = None, domain: str = "default") -> annotate:
        """A decorator: each call of the function is a range."""
        return annotate(message, stream, domain)

    annotate = annotate
