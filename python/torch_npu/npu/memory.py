"""Memory of npu: what the caching allocator holds, has held and lets go. Numbers are bytes unless a name says otherwise."""

from .. import _C
from ._lazy import _lazy_init, is_initialized
from ._utils import _get_device_index


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
    _lazy_init()
    _C._npu_set_memory_fraction(fraction, _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device=None):
    _lazy_init()
    return _C._npu_get_memory_fraction(_get_device_index(device, optional=True))


def get_allocator_backend():
    return "native"


# Older names of the same.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


_SIZES = {
    "allocated_bytes": "Allocated memory",
    "active_bytes": "Active memory",
    "requested_bytes": "Requested memory",
    "reserved_bytes": "Reserved memory",
    "inactive_split_bytes": "Non-releasable memory",
}
_COUNTS = {
    "allocation": "Allocations",
    "active": "Active allocations",
    "segment": "Segments",
    "inactive_split": "Non-releasable blocks",
}
_POOLS = {"all": "", "large_pool": "  large pool", "small_pool": "  small pool"}
_MOMENTS = {"current": "now", "peak": "peak", "allocated": "total taken", "freed": "total freed"}


def memory_summary(device=None, abbreviated=False):
    """The statistics as a table to print; abbreviated leaves the single pools out."""
    index = _get_device_index(device, optional=True)
    stats = memory_stats_as_nested_dict(index)
    pools = ["all"] if abbreviated else list(_POOLS)
    rows = [["", *_MOMENTS.values()]]
    for names, show in ((_SIZES, _show_size), (_COUNTS, str)):
        for stat, title in names.items():
            rows += [[_POOLS[pool] or title, *(show(stats[stat][pool][moment]) for moment in _MOMENTS)] for pool in pools]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * width for width in widths))
    head = f"Memory of npu:{index}: {stats['num_ooms']} times out of memory, {stats['num_alloc_retries']} retries"
    return "\n".join([head, *lines]) + "\n"


def _show_size(size):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{size} B"
        size /= 1024
    return f"{size:.1f} TiB"
