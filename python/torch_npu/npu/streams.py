"""Streams and events of npu: torch.Stream and torch.Event with the names that torch.cuda users know."""

import ctypes

import torch

from .. import _C
from .._offer import no_op
from ._lazy import _lazy_init
from ._utils import _get_device_index


def _device(device):
    return torch.device("npu", _get_device_index(device, optional=True))


class Stream(torch.Stream):
    """A queue of work of one device. Streams come from pools and may share a queue with others of the same priority.

    priority: negative for high, else normal."""

    def __new__(cls, device=None, priority=0, **kwargs):
        _lazy_init()
        if kwargs:  # stream_id, device_index and device_type: a stream that there is
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=_device(device), priority=priority)

    @staticmethod
    def priority_range():
        """The least and the greatest priority."""
        return 0, -1

    def query(self):
        """Whether all work that was given to the stream is done."""
        return super().query()

    def synchronize(self):
        """Waits for all work that was given to the stream; raises what failed meanwhile."""
        super().synchronize()

    def wait_event(self, event):
        """Later work of this stream starts after the event."""
        event.wait(self)

    def wait_stream(self, stream):
        """Later work of this stream starts after what the other one holds now."""
        self.wait_event(_checked(stream).record_event())

    def record_event(self, event=None):
        """Puts the event, or a new one, behind the work of the stream, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    @no_op("a launch goes straight to its stream, so that work of a data loader holds up no other")
    def set_data_preprocess_stream(self, is_data_preprocess_stream=False):
        """Tells that the stream prepares data."""
        if not isinstance(is_data_preprocess_stream, bool):
            raise TypeError(f"is_data_preprocess_stream must be True or False, but got {is_data_preprocess_stream!r}")

    @property
    def npu_stream(self):
        """The aclrtStream, as an int."""
        return _C._npu_stream_handle(*_identity(self))

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.npu_stream)

    @property
    def priority(self):
        return _C._npu_stream_priority(*_identity(self))

    def __repr__(self):
        return f"<torch.npu.{type(self).__name__} device={self.device} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream whose work is launched by the thread that asks for it, as that of every stream is here."""


class ExternalStream(Stream):
    """An aclrtStream that somebody else made, and must keep alive as long as this object is used."""

    def __new__(cls, stream_ptr, device=None, **kwargs):
        if kwargs:
            raise TypeError(f"ExternalStream takes a stream_ptr and a device, but got {', '.join(kwargs)}")
        if not isinstance(stream_ptr, int):
            raise TypeError(f"stream_ptr must be an int, as Stream.npu_stream is, but got {stream_ptr!r}")
        _lazy_init()
        return _stream(_C._npu_external_stream(stream_ptr, _get_device_index(device, optional=True)), cls)

    def __init__(self, stream_ptr, device=None, **kwargs):
        pass


class Event(torch.Event):
    """A point in the work of a stream, to wait for, to ask for, and with enable_timing to measure from (milliseconds).

    interprocess: other processes open it by its ipc_handle(); it measures no time. blocking changes nothing: a wait never spins.
    """

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
        if enable_timing and interprocess:
            raise ValueError("an event that other processes see measures no time; ask for one of enable_timing and interprocess")
        _lazy_init()
        event = super().__new__(cls, device=torch.device("npu"), enable_timing=enable_timing, blocking=blocking)
        # torch.Event measures only up to an event whose type is torch.Event itself, so such a one is recorded beside this one.
        event._clock = torch.Event("npu", enable_timing=True) if enable_timing else None
        event._shared = _C._NPUOwnEvent(False, -1) if interprocess else None
        return event

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """The event whose ipc_handle() another process sent."""
        event = cls.__new__(cls)
        event._shared = _C._NPUOwnEvent.open(handle, _get_device_index(device))
        return event

    def ipc_handle(self):
        """Bytes for from_ipc_handle() in another process, while this object lives."""
        if self._shared is None:
            raise ValueError("only an event that was made with interprocess=True has a handle for other processes")
        return self._shared.handle()

    def record(self, stream=None):
        """Puts the event behind the work of the stream, the current one if none is given."""
        stream = _given(stream)
        if self._shared is not None:
            self._shared.record(*_identity(stream))
            return
        if self._clock is not None:
            self._clock.record(stream)  # first, so that who waits for this event has waited for its clock
        super().record(stream)

    def wait(self, stream=None):
        """Later work of the stream, the current one if none is given, starts after the event."""
        stream = _given(stream)
        if self._shared is not None:
            self._shared.block(*_identity(stream))
            return
        super().wait(stream)

    def query(self):
        """Whether all work before the event is done; so it is if the event was never recorded."""
        return super().query() if self._shared is None else self._shared.query()

    def synchronize(self):
        """Waits for all work before the event."""
        if self._shared is None:
            super().synchronize()
        else:
            self._shared.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to a later one; both must have happened and been made with enable_timing=True."""
        end = getattr(end_event, "_clock", end_event)
        if self._clock is None or end is None:
            raise ValueError("both events must be made with enable_timing=True to measure the time between them")
        return self._clock.elapsed_time(end)

    def recorded_time(self):
        """The time of the event in microseconds of the device's clock; it must have happened and been made with timing."""
        if self._clock is None:
            raise ValueError("the event must be made with enable_timing=True to tell its time")
        return _C._npu_event_recorded_time(self._clock.event_id)

    @property
    def npu_event(self):
        """The event's identity as an int; 0 if it was never recorded."""
        return self.event_id if self._shared is None else self._shared.address

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.npu_event)

    def __repr__(self):
        if self._shared is not None:  # whether another process recorded it is not known here
            return "<torch.npu.Event interprocess>"
        return f"<torch.npu.Event {'recorded' if self.npu_event else 'not recorded'}>"


class ExternalEvent:
    """An event that can be reset: who waits for it then waits for nothing, until it is recorded again."""

    def __init__(self):
        _lazy_init()
        self._event = _C._NPUOwnEvent(True, -1)

    def record(self, stream=None):
        self._event.record(*_identity(_given(stream)))

    def wait(self, stream=None):
        self._event.block(*_identity(_given(stream)))

    def reset(self, stream=None):
        """The event is as if never recorded. Streams that wait for it already go on waiting."""
        self._event.reset(*_identity(_given(stream)))

    @property
    def npu_event(self):
        """The aclrtEvent, as an int."""
        return self._event.address

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.npu_event)

    def __repr__(self):
        return f"<torch.npu.ExternalEvent {self.npu_event:#x}>"


class StreamContext:
    """Context manager: a stream and its device are current within it; None changes nothing."""

    def __init__(self, stream_ctx):
        self.stream = None if stream_ctx is None else _checked(stream_ctx)

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
    _C._npu_set_device(_checked(stream).device_index)
    _C._npu_set_stream(*_identity(stream))


def current_stream(device=None):
    """The stream of a device that this thread's work goes to."""
    _lazy_init()
    return _stream(_C._npu_current_stream(_get_device_index(device, optional=True)))


def default_stream(device=None):
    """The stream of a device that is current until another is chosen."""
    _lazy_init()
    return _stream(_C._npu_default_stream(_get_device_index(device, optional=True)))


def get_stream_from_external(data_ptr, device=None):
    """ExternalStream under the name of torch.cuda."""
    return ExternalStream(data_ptr, device)


def _given(stream):
    """The stream, or the current one if none is given."""
    return current_stream() if stream is None else _checked(stream)


def _checked(stream):
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"stream must be a torch.npu.Stream, such as torch.npu.current_stream(), but got {stream!r}")
    return stream


def _identity(stream):
    return stream.stream_id, stream.device_index, stream.device_type


def _stream(identity, cls=Stream):
    stream_id, device_index, device_type = identity
    return Stream.__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
