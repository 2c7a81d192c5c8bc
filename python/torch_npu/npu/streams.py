"""Streams and events of npu: torch.Stream and torch.Event with the names that torch.cuda users know."""

import torch

from .. import _C
from ._lazy import _lazy_init
from ._utils import _get_device_index


def _device(device):
    return torch.device("npu", _get_device_index(device, optional=True))


class Stream(torch.Stream):
    """A queue of work of one device. Streams come from pools and may share a queue with others of the same priority.

    priority: negative for high, else normal."""

    def __new__(cls, device=None, priority=0, **identity):
        _lazy_init()
        if identity:
            return super().__new__(cls, **identity)
        return super().__new__(cls, device=_device(device), priority=priority)

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    @property
    def npu_stream(self):
        """The aclrtStream, as an int."""
        return _C._npu_stream_handle(*_identity(self))

    @property
    def priority(self):
        return _C._npu_stream_priority(*_identity(self))

    def __repr__(self):
        return f"<torch.npu.Stream device={self.device} npu_stream={self.npu_stream:#x}>"


class ExternalStream(Stream):
    """An aclrtStream that somebody else made, and must keep alive as long as this object is used."""

    def __new__(cls, stream_ptr, device=None):
        _lazy_init()
        return _stream(_C._npu_external_stream(stream_ptr, _get_device_index(device, optional=True)), cls)

    def __init__(self, stream_ptr, device=None):
        pass


class Event(torch.Event):
    """A point in the work of a stream, to wait for, to ask for, and with enable_timing to measure from (milliseconds)."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        _lazy_init()
        options = {"enable_timing": enable_timing, "blocking": blocking, "interprocess": interprocess}
        event = super().__new__(cls, device=torch.device("npu"), **options)
        # torch.Event measures only up to an event whose type is torch.Event itself, so such a one is recorded beside this one.
        event._clock = torch.Event("npu", enable_timing=True) if enable_timing else None
        return event

    def record(self, stream=None):
        stream = current_stream() if stream is None else stream
        if self._clock is not None:
            self._clock.record(stream)  # first, so that who waits for this event has waited for its clock
        super().record(stream)

    def elapsed_time(self, end_event):
        """Milliseconds from this event to a later one; both must have happened and been made with enable_timing=True."""
        end = getattr(end_event, "_clock", end_event)
        if self._clock is None or end is None:
            raise ValueError("both events must be made with enable_timing=True to measure the time between them")
        return self._clock.elapsed_time(end)

    def wait(self, stream=None):
        super().wait(current_stream() if stream is None else stream)

    def __repr__(self):
        return f"<torch.npu.Event {'recorded' if self.event_id else 'not recorded'}>"


class StreamContext:
    """Context manager: a stream and its device are current within it; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is None:
            return
        self._device = _C._npu_current_device()
        self._previous = _C._npu_current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *_):
        if self.stream is not None:
            _C._npu_set_stream(*self._previous)
            _C._npu_set_device(self._device)
        return False


def stream(stream):
    """`with torch.npu.stream(s):` runs what is inside on stream s."""
    return StreamContext(stream)


def set_stream(stream):
    """Makes a stream, and its device, current in this thread; None changes nothing."""
    if stream is None:
        return
    _C._npu_set_device(stream.device_index)
    _C._npu_set_stream(*_identity(stream))


def current_stream(device=None):
    _lazy_init()
    return _stream(_C._npu_current_stream(_get_device_index(device, optional=True)))


def default_stream(device=None):
    _lazy_init()
    return _stream(_C._npu_default_stream(_get_device_index(device, optional=True)))


def _identity(stream):
    return stream.stream_id, stream.device_index, stream.device_type


def _stream(identity, cls=Stream):
    stream_id, device_index, device_type = identity
    return Stream.__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
