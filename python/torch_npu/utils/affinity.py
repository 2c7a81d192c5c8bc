"""The cores that the calling thread may run on.

    set_thread_affinity([0, 3])               # cores 0 to 3
    set_thread_affinity([[0, 3], [8, 11]])    # and 8 to 11
    reset_thread_affinity()                   # all that the process had when torch_npu.utils was imported

Threads that the calling thread starts afterwards inherit its cores.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

_ALL = os.sched_getaffinity(0)


def set_thread_affinity(core_range: Sequence[int] | Sequence[Sequence[int]] | None = None) -> None:
    """Binds the calling thread to cores, both ends included; None gives it all cores of the process."""
    if core_range is None:
        reset_thread_affinity()
        return
    ranges: Any = [core_range] if _is_range(core_range) else core_range
    if not isinstance(ranges, (list, tuple)) or not ranges or not all(map(_is_range, ranges)):
        raise ValueError(
            f"core_range must be [first, last] or a list of such, with 0 <= first <= last, not {core_range!r}; "
            f"the cores of this process are {sorted(_ALL)}"
        )
    cores = {core for first, last in ranges for core in range(first, last + 1)}
    if not cores <= _ALL:
        raise ValueError(f"core_range {core_range!r} names cores that this process may not use; it has {sorted(_ALL)}")
    os.sched_setaffinity(0, cores)


def reset_thread_affinity() -> None:
    """Gives the calling thread all cores of the process."""
    os.sched_setaffinity(0, _ALL)


def _is_range(value: Any) -> bool:
    if not isinstance(value, (list, tuple)) or len(value) != 2 or not all(type(core) is int for core in value):
        return False
    return 0 <= value[0] <= value[1]
