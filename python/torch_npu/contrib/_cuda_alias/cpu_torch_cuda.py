"""torch.cuda, torch.accelerator and autocast while "cuda" means the CPU: one device without streams, memory or random state."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from .replacement import Replacement
from .tensors import keep_scripting

if TYPE_CHECKING:
    from .cpu_target import Places

_TYPES = (
    "Half", "BFloat16", "Float", "Double", "Byte", "Char", "Short", "Int", "Long", "Bool",
)  # fmt: skip


class Stream:
    """A stream of a device that finishes each operator in its call."""

    stream_id = cuda_stream = device_index = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device = torch.device("cuda", 0)

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def synchronize(self, *_: Any) -> None: ...

    wait_event = wait_stream = synchronize

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def __enter__(self) -> Stream:
        _current.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _current.pop()


_current = [Stream()]  # the default stream, and those of open `with torch.cuda.stream(...)`


class Event:
    """An event that is always complete; no time passes between two of them."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def query(self) -> bool:
        return True

    def record(self, *_: Any) -> None: ...

    wait = synchronize = record

    def elapsed_time(self, end_event: Event) -> float:
        return 0.0


class StreamScope(contextlib.AbstractContextManager[None]):
    """torch.cuda.stream(s). None leaves the current stream as it is."""

    def __init__(self, stream: Stream | None = None) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        _current.append(self._stream or _current[-1])

    def __exit__(self, *_: Any) -> None:
        _current.pop()


class _Scope(contextlib.AbstractContextManager[None]):
    """torch.cuda.device(0) and the like."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


def replacements(places: Places) -> Iterator[Replacement]:
    cuda = torch.cuda
    for name, value in _names(places).items():
        yield cuda, name, value
        for module in (cuda.memory, cuda.random, cuda.streams):
            if callable(value) and name in vars(module):
                yield module, name, value
    for name, value in _accelerator().items():
        if hasattr(torch.accelerator, name):
            yield torch.accelerator, name, value
    # torch's own warns that it was built without cuDNN.
    yield torch.backends.cudnn, "is_acceptable", lambda tensor: False
    yield torch, "Generator", _generator_class(torch.Generator)
    yield from _autocast()
    yield from _profilers()


def _names(places: Places) -> dict[str, Any]:
    memory = 16 << 30
    properties = types.SimpleNamespace(
        name="CPU in the place of CUDA", major=8, minor=0, total_memory=memory, multi_processor_count=1, warp_size=32, uuid="0"
    )
    nothing = ("synchronize", "empty_cache", "ipc_collect", "init", "_lazy_init", "set_device", "manual_seed", "manual_seed_all",
               "seed", "seed_all", "set_rng_state", "set_rng_state_all", "reset_peak_memory_stats", "reset_max_memory_allocated",
               "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_per_process_memory_fraction", "set_stream",
               "set_sync_debug_mode", "_sleep")  # fmt: skip
    zero = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
            "memory_cached", "max_memory_cached", "utilization", "memory_usage", "get_sync_debug_mode")  # fmt: skip
    truths = ("is_available", "is_initialized", "is_bf16_supported", "can_device_access_peer")
    return {
        **{name: lambda *_, **__: None for name in nothing},
        **{name: lambda *_, **__: 0 for name in zero},
        **{name: lambda *_, **__: True for name in truths},
        **dict.fromkeys(("device", "device_of"), _Scope),
        **dict.fromkeys(("stream", "StreamContext"), StreamScope),
        **{f"{name}Tensor": _legacy_type(name, places) for name in _TYPES},
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "current_stream": lambda *_: _current[-1],
        "default_stream": lambda *_: _current[0],
        "default_generators": (torch.default_generator,),
        "device_count": lambda: 1,
        "get_device_name": lambda *_: properties.name,
        "get_device_capability": lambda *_: (8, 0),
        "get_device_properties": lambda *_: properties,
        "get_arch_list": lambda: [],
        "get_gencode_flags": lambda: "",
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "mem_get_info": lambda *_: (memory, memory),
        "memory_stats": lambda *_: {},
        "memory_snapshot": lambda *_, **__: [],
        "memory_summary": lambda *_, **__: "",
        "make_graphed_callables": lambda callables, *_, **__: callables,
        "is_current_stream_capturing": lambda: False,
        "_initialized": True,
        "_is_in_bad_fork": lambda: False,
    }


def _legacy_type(name: str, places: Places) -> Any:
    def make(*args: Any, **kwargs: Any) -> torch.Tensor:
        tensor: torch.Tensor = getattr(torch, f"{name}Tensor")(*args, **kwargs)
        places.put(tensor, True)
        return tensor

    class Meta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, torch.Tensor) and value.type() == f"torch.cuda.{name}Tensor"

    new = {"__new__": lambda cls, *args, **kwargs: make(*args, **kwargs), "cuda_name": f"torch.cuda.{name}Tensor"}
    return Meta(f"{name}Tensor", (), new)


def _accelerator() -> dict[str, Any]:
    return {
        "is_available": lambda: True,
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        "device_count": lambda: 1,
        "current_device_index": lambda: 0,
        "current_stream": lambda *_: _current[-1],
        "set_device_index": lambda *_: None,
        "set_stream": lambda *_: None,
        "synchronize": lambda *_: None,
        "device_index": _Scope,
    }


def _generator_class(real: type) -> type:
    class Meta(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class OfCuda(real):  # type: ignore[misc, valid-type]
        device = torch.device("cuda", 0)

    class Generator(metaclass=Meta):
        """torch.Generator, of the CPU for each device."""

        def __new__(cls, device: Any = "cpu") -> Any:
            return OfCuda("cpu") if torch.device(device).type == "cuda" else real(device)

    return Generator


def _autocast() -> Iterator[Replacement]:
    """The state of torch.autocast("cuda") is that of "cpu"."""
    autocast = torch.amp.autocast_mode.autocast
    init = autocast.__init__

    @functools.wraps(init)
    def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        init(self, device_type, dtype, *args, **kwargs)

    def by_type(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def for_cpu(device_type: Any = "cpu", *args: Any) -> Any:
            if isinstance(device_type, bool):  # the old form, which takes no device type
                return function("cpu", device_type)
            return function("cpu" if device_type == "cuda" else device_type, *args)

        return for_cpu

    yield autocast, "__init__", __init__
    for name in ("is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype"):
        twin = by_type(getattr(torch, name))
        keep_scripting(getattr(torch, name), twin)
        yield torch, name, twin
    yield torch, "get_autocast_gpu_dtype", functools.partial(torch.get_autocast_dtype, "cpu")
    yield torch, "set_autocast_gpu_dtype", functools.partial(torch.set_autocast_dtype, "cpu")


def _profilers() -> Iterator[Replacement]:
    """Profilers measure the CPU only."""
    for owner in (torch.autograd.profiler.profile, torch.profiler.profile):
        yield owner, "__init__", _of_cpu(owner.__init__)


def _of_cpu(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def __init__(
        self: Any, *args: Any, use_cuda: Any = None, use_device: Any = None, activities: Any = None, **kwargs: Any
    ) -> None:
        if activities is not None:
            kwargs["activities"] = [torch.profiler.ProfilerActivity.CPU]
        init(self, *args, **kwargs)

    return __init__
