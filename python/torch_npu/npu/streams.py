"""Streams and events of npu: torch.Stream and torch.Event with the methods of torch.cuda."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Literal

import torch

from .. import _C
from .._api_status import no_op
from ._lazy import _lazy_init
from ._utils import _get_device_index

if TYPE_CHECKING:
    from torch.types import Device


def _device(device: Device) -> torch.device:
    return torch.device("npu", _get_device_index(device, optional=True))


class Stream(torch.Stream):
    """An ordered queue of work on one device. Streams come from a pool, so two objects of one priority may be the same queue.

    priority: negative for high, else normal."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        _lazy_init()
        if kwargs:  # stream_id, device_index and device_type of an existing stream
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=_device(device), priority=priority)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority."""
        return 0, -1

    def query(self) -> bool:
        """Whether all work of the stream is done."""
        return super().query()

    def synchronize(self) -> None:
        """Waits for all work of the stream. Raises the error of work that failed."""
        super().synchronize()

    def wait_event(self, event: torch.Event | ExternalEvent) -> None:
        """Later work of this stream starts after the event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Later work of this stream starts after the current work of the other stream."""
        self.wait_event(_checked(stream).record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Records the event, or a new one, after the work of the stream, and returns it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    @no_op("a launch goes directly to its stream, so the work of a data loader delays no other stream")
    def set_data_preprocess_stream(self, is_data_preprocess_stream: bool = False) -> None:
        """Marks the stream as one that prepares data."""
        if not isinstance(is_data_preprocess_stream, bool):
            raise TypeError(f"is_data_preprocess_stream must be True or False, but got {is_data_preprocess_stream!r}")

    @property
    def npu_stream(self) -> int:
        """The aclrtStream, as an int."""
        return _C._npu_stream_handle(*_identity(self))

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    @property
    def priority(self) -> int:
        return _C._npu_stream_priority(*_identity(self))

    def __repr__(self) -> str:
        return f"<torch.npu.{type(self).__name__} device={self.device} npu_stream={self.npu_stream:#x}>"


class SyncLaunchStream(Stream):
    """A stream whose work is launched by the calling thread. Every stream of softnpu is one."""


class ExternalStream(Stream):
    """Wraps an aclrtStream that the caller owns. The caller must keep it alive while this object is used."""

    def __new__(cls, stream_ptr: int, device: Device = None, **kwargs: Any) -> ExternalStream:
        if kwargs:
            raise TypeError(f"ExternalStream takes a stream_ptr and a device, but got {', '.join(kwargs)}")
        if not isinstance(stream_ptr, int):
            raise TypeError(f"stream_ptr must be an int, as Stream.npu_stream is, but got {stream_ptr!r}")
        _lazy_init()
        return _stream(_C._npu_external_stream(stream_ptr, _get_device_index(device, optional=True)), cls)

    def __init__(self, stream_ptr: int, device: Device = None, **kwargs: Any) -> None:
        pass


class Event(torch.Event):
    """A point in the work of a stream that can be waited for and queried. With enable_timing it measures milliseconds.

    interprocess: other processes can open it by its ipc_handle(); such an event measures no time. blocking has no effect: a wait
    never spins.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Event:
        if enable_timing and interprocess:
            raise ValueError("an event that other processes see measures no time; ask for one of enable_timing and interprocess")
        _lazy_init()
        event = super().__new__(cls, device=torch.device("npu"), enable_timing=enable_timing, blocking=blocking)
        # torch.Event.elapsed_time accepts only events of the exact type torch.Event, so one is recorded together with this one.
        event._clock = torch.Event("npu", enable_timing=True) if enable_timing else None
        event._shared = _C._NPUUnpooledEvent(False, -1) if interprocess else None
        return event

    @classmethod
    def from_ipc_handle(cls, device: Device, handle: bytes) -> Event:
        """Opens an event of another process by its ipc_handle()."""
        event = cls.__new__(cls)
        event._shared = _C._NPUUnpooledEvent.open(handle, _get_device_index(device))
        return event

    def ipc_handle(self) -> bytes:
        """Bytes for from_ipc_handle() in another process. They are valid while this object lives."""
        if self._shared is None:
            raise ValueError("only an event that was made with interprocess=True has a handle for other processes")
        return self._shared.handle()

    def record(self, stream: torch.Stream | None = None) -> None:
        """Records the event after the work of the stream, by default the current one."""
        stream = _given(stream)
        if self._shared is not None:
            self._shared.record(*_identity(stream))
            return
        if self._clock is not None:
            self._clock.record(stream)  # first, so that a wait for this event includes its clock
        super().record(stream)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Later work of the stream, by default the current one, starts after the event."""
        stream = _given(stream)
        if self._shared is not None:
            self._shared.block(*_identity(stream))
            return
        super().wait(stream)

    def query(self) -> bool:
        """Whether all work before the event is done. True if the event was never recorded."""
        return super().query() if self._shared is None else self._shared.query()

    def synchronize(self) -> None:
        """Waits for all work before the event."""
        if self._shared is None:
            super().synchronize()
        else:
            self._shared.synchronize()

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event to a later one. Both must be complete and made with enable_timing=True."""
        end = getattr(end_event, "_clock", end_event)
        if self._clock is None or end is None:
            raise ValueError("both events must be made with enable_timing=True to measure the time between them")
        return self._clock.elapsed_time(end)

    def recorded_time(self) -> int:
        """The time of the event in microseconds of the device's clock. It must be complete and made with enable_timing=True."""
        if self._clock is None:
            raise ValueError("the event must be made with enable_timing=True to tell its time")
        return _C._npu_event_recorded_time(self._clock.event_id)

    @property
    def npu_event(self) -> int:
        """The ID of the event as an int; 0 if it was never recorded."""
        return self.event_id if self._shared is None else self._shared.address

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_event)

    def __repr__(self) -> str:
        if self._shared is not None:  # another process may have recorded it
            return "<torch.npu.Event interprocess>"
        return f"<torch.npu.Event {'recorded' if self.npu_event else 'not recorded'}>"


class ExternalEvent:
    """An event that can be reset."""

    def __init__(self) -> None:
        _lazy_init()
        self._event = _C._NPUUnpooledEvent(True, -1)

    def record(self, stream: torch.Stream | None = None) -> None:
        self._event.record(*_identity(_given(stream)))

    def wait(self, stream: torch.Stream | None = None) -> None:
        self._event.block(*_identity(_given(stream)))

    def reset(self, stream: torch.Stream | None = None) -> None:
        """Makes the event as if never recorded. Streams that already wait for it continue to wait."""
        self._event.reset(*_identity(_given(stream)))

    @property
    def npu_event(self) -> int:
        """The aclrtEvent, as an int."""
        return self._event.address

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_event)

    def __repr__(self) -> str:
        return f"<torch.npu.ExternalEvent {self.npu_event:#x}>"


class StreamContext:
    """Context manager: a stream and its device are current inside it; None changes nothing."""

    def __init__(self, stream_ctx: torch.Stream | None) -> None:
        self.stream = None if stream_ctx is None else _checked(stream_ctx)

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._device = _C._npu_current_device()
        self._previous = _C._npu_current_stream(self.stream.device_index)
        set_stream(self.stream)

    def __exit__(self, *_: object) -> Literal[False]:
        if self.stream is not None:
            _C._npu_set_stream(*self._previous)
            _C._npu_set_device(self._device)
        return False


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: `with torch.npu.stream(s):` runs operators inside it on stream s."""
    return StreamContext(stream)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream, and its device, current in this thread; None changes nothing."""
    if stream is None:
        return
    _C._npu_set_device(_checked(stream).device_index)
    _C._npu_set_stream(*_identity(stream))


def current_stream(device: Device = None) -> Stream:
    """The stream of a device that this thread submits work to."""
    _lazy_init()
    return _stream(_C._npu_current_stream(_get_device_index(device, optional=True)))


def default_stream(device: Device = None) -> Stream:
    """The stream of a device that is current until another one is set."""
    _lazy_init()
    return _stream(_C._npu_default_stream(_get_device_index(device, optional=True)))


def get_stream_from_external(data_ptr: int, device: Device = None) -> ExternalStream:
    """ExternalStream under the name of torch.cuda."""
    return ExternalStream(data_ptr, device)


def _given(stream: torch.Stream | None) -> torch.Stream:
    """The stream, or the current one if none is given."""
    return current_stream() if stream is None else _checked(stream)


def _checked(stream: torch.Stream) -> torch.Stream:
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"stream must be a torch.npu.Stream, such as torch.npu.current_stream(), but got {stream!r}")
    return stream


def _identity(stream: torch.Stream) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


def _stream(identity: tuple[int, int, int], cls: type[Any] = Stream) -> Any:
    stream_id, device_index, device_type = identity
    return Stream.__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
