"""Memory of npu: what the caching allocator holds, has held and lets go. Numbers are bytes unless a name says otherwise."""

import contextlib

import torch

from .. import _C
from .._offer import no_op
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


def empty_cache():
    """Gives memory that no tensor uses back to the device."""
    if is_initialized():
        _C._npu_empty_cache()


def host_empty_cache():
    """Gives pinned host memory that no tensor uses back to the host."""
    if is_initialized():
        _C._npu_host_empty_cache()


def mem_get_info(device=None):
    """(free, total) of the device, all processes together."""
    _lazy_init()
    return _C._npu_mem_get_info(_get_device_index(device, optional=True))


def memory_stats_as_nested_dict(device=None):
    """The allocator's statistics; all zero before the device is used."""
    return _C._npu_memory_stats(_get_device_index(device, optional=True))


def memory_stats(device=None):
    """The same in one flat dictionary, with names such as "allocated_bytes.all.peak"."""
    return dict(sorted(_flat("", memory_stats_as_nested_dict(device))))


def _flat(prefix, stats):
    for name, value in stats.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value


def memory_allocated(device=None):
    """Memory of tensors."""
    return _bytes("allocated_bytes", "current", device)


def max_memory_allocated(device=None):
    return _bytes("allocated_bytes", "peak", device)


def memory_reserved(device=None):
    """Memory of tensors and of the cache."""
    return _bytes("reserved_bytes", "current", device)


def max_memory_reserved(device=None):
    return _bytes("reserved_bytes", "peak", device)


def _bytes(stat, moment, device):
    return memory_stats_as_nested_dict(device)[stat]["all"][moment]


def reset_peak_memory_stats(device=None):
    """Peaks begin again at what is in use now."""
    _C._npu_reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device=None):
    """Totals ("allocated", "freed", retries, OOMs) begin again at zero."""
    _C._npu_reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def set_per_process_memory_fraction(fraction, device=None):
    """The share of the device's memory, from 0 to 1, beyond which an allocation of this process fails as out of memory."""
    if not isinstance(fraction, int | float):
        raise TypeError(f"fraction must be a number from 0 to 1, but got {fraction!r}")
    _lazy_init()
    _C._npu_set_memory_fraction(fraction, _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device=None):
    _lazy_init()
    return _C._npu_get_memory_fraction(_get_device_index(device, optional=True))


def memory_summary(device=None, abbreviated=False):
    """The statistics as a table to print; abbreviated leaves the single pools out."""
    index = _get_device_index(device, optional=True)
    return summary(index, memory_stats_as_nested_dict(index), abbreviated)


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of `size` bytes for other libraries, until caching_allocator_delete. stream: a Stream or its npu_stream; None
    for the current one of the device."""
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size must be a whole number of bytes from 0, but is {size!r}")
    _lazy_init()
    index = _get_device_index(device, optional=True)
    return _C._npu_caching_allocator_raw_alloc(size, _stream_id(stream, index), index)


def _stream_id(stream, index):
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


def caching_allocator_delete(mem_ptr):
    """Frees what caching_allocator_alloc gave."""
    _C._npu_caching_allocator_raw_delete(mem_ptr)


def caching_allocator_enable(value=True):
    """False: every tensor from now on is an allocation of the device, outside of the statistics."""
    if not isinstance(value, bool):
        raise TypeError(f"value must be True or False, but is {value!r}")
    _C._npu_caching_allocator_enable(value)


@contextlib.contextmanager
def caching_allocator_disabled():
    """Context manager: every tensor that is made within it is an allocation of the device."""
    before = _C._npu_caching_allocator_enable(False)
    try:
        yield
    finally:
        _C._npu_caching_allocator_enable(before)


def _set_allocator_settings(env):
    """As PYTORCH_NPU_ALLOC_CONF, from now on; what it does not name has its default."""
    if not isinstance(env, str):
        raise TypeError(f"settings are a text such as 'max_split_size_mb:128', but got {env!r}")
    _C._npu_set_allocator_settings(env)


@no_op("no virtual addresses are reserved: segments do not expand")
def empty_virt_addr_cache(): ...


def host_memory_stats_as_nested_dict():
    """Statistics of pinned host memory."""
    return _C._npu_host_memory_stats()


def host_memory_stats():
    """The same in one flat dictionary, with names such as "active_bytes.current"."""
    return dict(sorted(_flat("", host_memory_stats_as_nested_dict())))


def reset_accumulated_host_memory_stats():
    _C._npu_reset_accumulated_host_memory_stats()


def reset_peak_host_memory_stats():
    _C._npu_reset_peak_host_memory_stats()


# Older names of the same.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


_lazy_call(_start_oom_snapshots)
