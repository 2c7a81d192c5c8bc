"""torch.npu.memory.memory_summary: the statistics as a table in the form of torch.cuda.memory_summary."""

from __future__ import annotations

from typing import Any

_SIZES = {
    "allocated_bytes": "Allocated memory",
    "active_bytes": "Active memory",
    "requested_bytes": "Requested memory",
    "reserved_bytes": "NPU reserved memory",
    "inactive_split_bytes": "Non-releasable memory",
}
_COUNTS = {
    "allocation": "Allocations",
    "active": "Active allocs",
    "segment": "NPU reserved segments",
    "inactive_split": "Non-releasable allocs",
}
_OVERSIZE = {"oversize_allocations": "Oversize allocations", "oversize_segments": "Oversize NPU segments"}
_POOLS = {"all": "", "large_pool": "      from large pool", "small_pool": "      from small pool"}
_MOMENTS = ("current", "peak", "allocated", "freed")
_WIDTH = 75


def summary(index: int, stats: dict[str, Any], abbreviated: bool) -> str:
    """stats: the result of memory_stats_as_nested_dict. abbreviated: without the rows of the large and the small pool."""
    lines = [
        "=" * _WIDTH,
        f"{f'PyTorch NPU memory summary, device ID {index}':^{_WIDTH}}",
        "-" * _WIDTH,
        f"{'NPU OOMs: ' + str(stats['num_ooms']):^36} | {'aclrtMalloc retries: ' + str(stats['num_alloc_retries']):^36}",
        "=" * _WIDTH,
        _row("       Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"),
    ]
    for names, show in ((_SIZES, _show_size), (_COUNTS, _show_count)):
        for name, title in names.items():
            lines.append("-" * _WIDTH)
            for pool in ["all"] if abbreviated else _POOLS:
                whole, part = stats[name]["all"], stats[name][pool]
                lines.append(_row(_POOLS[pool] or title, *(show(part[moment], whole[moment]) for moment in _MOMENTS)))
    for name, title in _OVERSIZE.items():
        lines += ["-" * _WIDTH, _row(title, *(_show_count(stats[name][moment], stats[name][moment]) for moment in _MOMENTS))]
    lines.append("=" * _WIDTH)
    return "".join(f"|{line}|\n" for line in lines)


def _row(title: str, *cells: str) -> str:
    return f" {title:<21} | " + " | ".join(f"{cell:^10}" for cell in cells) + " "


def _show_size(size: int, whole: int) -> str:
    """In the unit of `whole`, so that the rows of one statistic can be compared."""
    return _show(size, whole, ("B  ", "KiB", "MiB", "GiB", "TiB"), 1024)


def _show_count(count: int, whole: int) -> str:
    return _show(count, whole, ("  ", "K ", "M "), 1000)


def _show(value: int, whole: float, units: tuple[str, ...], base: int) -> str:
    power = 0
    while abs(whole) >= 750 * base and power + 1 < len(units):
        whole /= base
        power += 1
    return f"{value // base**power:>6d} {units[power]}"
