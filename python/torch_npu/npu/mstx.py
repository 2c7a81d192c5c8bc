"""Marks and ranges that a profiler shows beside the device's work.

    with torch.npu.mstx.annotate("epoch"):
        torch.npu.mstx.mark("first batch", stream=torch.npu.current_stream())

Until a profiler listens they are checked and do nothing else. What is wrong with one is a warning, never an error: the training
that it describes goes on. Ranges of one domain nest; those of range_start end in any order, in any thread.
"""

import functools
import itertools
import threading
import warnings

from .._offer import no_op
from .streams import Stream

_REASON = "no profiler listens to marks and ranges yet; torch.profiler.record_function is shown by torch.profiler"

_thread = threading.local()
_open = set()  # (domain, range_id) of range_start
_numbers = itertools.count(1)


def _is_right(name, message, stream, domain):
    if not isinstance(message, str) or not message:
        return _warn(f"{name}: the message must be a text, but got {message!r}")
    if not isinstance(domain, str) or not domain:
        return _warn(f"{name}: the domain must be a text, but got {domain!r}")
    if stream is not None and not isinstance(stream, Stream):
        return _warn(f"{name}: the stream must be a torch.npu.Stream or None, but got {stream!r}")
    return True


def _warn(text):
    warnings.warn(f"torch.npu.mstx.{text}", stacklevel=4)
    return False


def _depths():
    if not hasattr(_thread, "depths"):
        _thread.depths = {}
    return _thread.depths


class annotate:
    """A range: a context manager, or a decorator whose message is the name of the function if none is given."""

    def __init__(self, message="", stream=None, domain="default"):
        self.message = message
        self.stream = stream
        self.domain = domain

    def __enter__(self):
        self.range_id = mstx.range_start(self.message, self.stream, self.domain)
        return self

    def __exit__(self, *_):
        if self.range_id:
            mstx.range_end(self.range_id, self.domain)
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with annotate(self.message or function.__name__, self.stream, self.domain):
                return function(*args, **kwargs)

        return inside


class mstx:
    """All of them as static methods; nothing is gained by an object of it."""

    @staticmethod
    @no_op(_REASON)
    def mark(message, stream=None, domain="default"):
        """A point in time, of the host, or of the stream if one is given."""
        _is_right("mark", message, stream, domain)

    @staticmethod
    @no_op(_REASON)
    def range_push(message, stream=None, domain="default"):
        """Begins a range in this thread; gives how many were open before, or -1 if something is wrong."""
        if not _is_right("range_push", message, stream, domain):
            return -1
        depths = _depths()
        depths[domain] = depths.get(domain, 0) + 1
        return depths[domain] - 1

    @staticmethod
    @no_op(_REASON)
    def range_pop(domain="default"):
        """Ends the range that this thread began last; gives how many are open yet, or -1 if none was."""
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
    def range_start(message, stream=None, domain="default"):
        """Begins a range; gives the number that range_end takes, or 0 if something is wrong."""
        if not _is_right("range_start", message, stream, domain):
            return 0
        number = next(_numbers)
        _open.add((domain, number))
        return number

    @staticmethod
    @no_op(_REASON)
    def range_end(range_id, domain="default"):
        if (domain, range_id) not in _open:
            _warn(f"range_end: there is no open range {range_id!r} in the domain {domain!r}; give what range_start returned")
            return
        _open.remove((domain, range_id))

    @staticmethod
    @no_op(_REASON)
    def mstx_range(message, stream=None, domain="default"):
        """A decorator: each call of the function is a range."""
        return annotate(message, stream, domain)

    annotate = annotate
