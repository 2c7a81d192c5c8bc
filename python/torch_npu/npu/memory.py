"""The caching allocator of npu: statistics, limits and release of memory. Numbers are bytes unless a name says otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import _C
from .._api_status import no_op
from ._lazy import _lazy_call, _lazy_init, is_initialized
from ._memory_pool import (  # noqa: F401
    MemPool,
    NPUPluggableAllocator,
    _get_current_allocator,
    _NPUAllocator,
    change_current_allocator,
    get_allocator_backend,
    use_mem_pool,
)
from ._memory_snapshot import (  # noqa: F401
    _dump_snapshot,
    _record_memory_history,
    _snapshot,
    _start_oom_snapshots,
    memory_snapshot,
)
from ._memory_summary import summary
from ._utils import _get_device_index
from .streams import ExternalStream, current_stream, default_stream

if TYPE_CHECKING:
    from torch.types import Device


def empty_cache() -> None:
    """Returns cached memory that no tensor uses to the device."""
    if is_initialized():
        _C._npu_empty_cache()


def host_empty_cache() -> None:
    """Returns cached pinned memory that no tensor uses to the host."""
    if is_initialized():
        _C._npu_host_empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) memory of the device, for all processes together."""
    _lazy_init()
    return _C._npu_mem_get_info(_get_device_index(device, optional=True))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """The allocator's statistics; all zero before the device is used."""
    return _C._npu_memory_stats(_get_device_index(device, optional=True))


def memory_stats(device: Device = None) -> dict[str, Any]:
    """memory_stats_as_nested_dict() as one flat dictionary, with names such as "allocated_bytes.all.peak"."""
    return dict(sorted(_flat("", memory_stats_as_nested_dict(device))))


def _flat(prefix: str, stats: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in stats.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def memory_allocated(device: Device = None) -> int:
    """Memory of tensors."""
    return _bytes("allocated_bytes", "current", device)


def max_memory_allocated(device: Device = None) -> int:
    return _bytes("allocated_bytes", "peak", device)


def memory_reserved(device: Device = None) -> int:
    """Memory of tensors and the cache."""
    return _bytes("reserved_bytes", "current", device)


def max_memory_reserved(device: Device = None) -> int:
    return _bytes("reserved_bytes", "peak", device)


def _bytes(stat: str, moment: str, device: Device) -> int:
    return memory_stats_as_nested_dict(device)[stat]["all"][moment]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets the peaks to the current values."""
    _C._npu_reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the totals ("allocated", "freed", retries, OOMs) to zero."""
    _C._npu_reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits this process to a share of the device's memory, from 0 to 1. Allocations beyond it raise OutOfMemoryError."""
    if not isinstance(fraction, int | float):
        raise TypeError(f"fraction must be a number from 0 to 1, but got {fraction!r}")
    _lazy_init()
    _C._npu_set_memory_fraction(fraction, _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device: Device = None) -> float:
    _lazy_init()
    return _C._npu_get_memory_fraction(_get_device_index(device, optional=True))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table to print. abbreviated: without the rows of the large and the small pool."""
    index = _get_device_index(device, optional=True)
    return summary(index, memory_stats_as_nested_dict(index), abbreviated)


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | int | None = None) -> int:
    """Allocates `size` bytes for other libraries and returns the address; caching_allocator_delete frees it. stream: a Stream or
    its npu_stream; None for the current stream of the device."""
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size must be a whole number of bytes from 0, but is {size!r}")
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return _C._npu_caching_allocator_raw_alloc(size, _stream_id(stream, index), index)


def _stream_id(stream: torch.Stream | int | None, index: int) -> int:
    current = current_stream(index)
    if stream is None or (isinstance(stream, int) and stream == current.npu_stream):
        return current.stream_id
    if isinstance(stream, int):
        return ExternalStream(stream, device=index).stream_id if stream else default_stream(index).stream_id
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"stream must be a torch.npu.Stream or the int of its npu_stream, but is {type(stream).__name__}")
    if stream.device != torch.device("npu", index):
        raise ValueError(f"the stream is of {stream.device}, but the memory is of npu:{index}")
    return stream.stream_id


def caching_allocator_delete(mem_ptr: int) -> None:
    """Frees memory of caching_allocator_alloc."""
    _C._npu_caching_allocator_raw_delete(mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """False: each new tensor is allocated from the device directly and is not in the statistics."""
    if not isinstance(value, bool):
        raise TypeError(f"value must be True or False, but is {value!r}")
    _C._npu_caching_allocator_enable(value)


@contextlib.contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """Context manager: each tensor made inside it is allocated from the device directly."""
    before = _C._npu_caching_allocator_enable(False)
    try:
        yield
    finally:
        _C._npu_caching_allocator_enable(before)


def _set_allocator_settings(env: str) -> None:
    """Applies settings in the form of PYTORCH_NPU_ALLOC_CONF. Settings that are not named get their default."""
    if not isinstance(env, str):
        raise TypeError(f"settings are a text such as 'max_split_size_mb:128', but got {env!r}")
    _C._npu_set_allocator_settings(env)


@no_op("addresses of unused segments are not cached: they are freed together with the memory")
def empty_virt_addr_cache() -> None: ...


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Statistics of pinned host memory."""
    return _C._npu_host_memory_stats()


def host_memory_stats() -> dict[str, Any]:
    """host_memory_stats_as_nested_dict() as one flat dictionary, with names such as "active_bytes.current"."""
    return dict(sorted(_flat("", host_memory_stats_as_nested_dict())))


def reset_accumulated_host_memory_stats() -> None:
    _C._npu_reset_accumulated_host_memory_stats()


def reset_peak_host_memory_stats() -> None:
    _C._npu_reset_peak_host_memory_stats()


# Older names.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


_lazy_call(_start_oom_snapshots)
