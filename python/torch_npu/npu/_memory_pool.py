"""Private pools of device memory, and pluggable allocators. torch.npu.memory exports these names.

pool = torch.npu.MemPool()
with torch.npu.use_mem_pool(pool):
    x = torch.empty(1024, device="npu")     # in a segment that belongs to the pool

torch.npu.memory.change_current_allocator(torch.npu.memory.NPUPluggableAllocator("mine.so", "my_malloc", "my_free"))
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _C
from ._lazy import _lazy_init
from ._utils import _get_device_index

if TYPE_CHECKING:
    from torch.types import Device


class _NPUAllocator:
    """Holds an allocator object of C++."""

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator

    def allocator(self) -> Any:
        return self._allocator


class NPUPluggableAllocator(_NPUAllocator):
    """Two C functions of a shared library:

    void* alloc_fn(size_t size, int device, aclrtStream stream);
    void free_fn(void* address, size_t size, int device, aclrtStream stream);
    """

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        library = ctypes.CDLL(path_to_so_file)
        super().__init__(_C._npu_customAllocator(*(_address(library, name) for name in (alloc_fn_name, free_fn_name))))


def _address(library: ctypes.CDLL, name: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        raise ValueError(f'{library._name} has no function {name!r}; declare it extern "C" if it is of C++') from None


def change_current_allocator(allocator: _NPUAllocator) -> None:
    """Makes `allocator` the source of all device memory. An error if device memory was used before."""
    if not isinstance(allocator, _NPUAllocator):
        raise TypeError(f"an NPUPluggableAllocator is needed, but got {type(allocator).__name__}")
    _C._npu_changeCurrentAllocator(allocator.allocator())


def _get_current_allocator() -> _NPUAllocator:
    return _NPUAllocator(_C._npu_getAllocator())


def get_allocator_backend() -> str:
    """ "native", or "pluggable" after change_current_allocator."""
    return _C._npu_getAllocator().name


class MemPool(_C._MemPool):
    """A pool of device memory of its own; see use_mem_pool. Unused memory is freed when the object is deleted.

    allocator: the result of NPUPluggableAllocator(...).allocator(), or None for the device's own allocator."""

    def __init__(self, allocator: Any = None) -> None:
        _lazy_init()
        if isinstance(allocator, _NPUAllocator):
            allocator = allocator.allocator()
        if not isinstance(allocator, (_C._npu_NPUAllocator, type(None))):
            raise TypeError(f"the allocator of a pool must be an NPUPluggableAllocator, but got {type(allocator).__name__}")
        super().__init__(allocator)
        self._allocator = allocator

    @property
    def allocator(self) -> Any:
        return self._allocator

    @property
    def id(self) -> tuple[int, int]:
        """Two ints. The segments of a snapshot name their pool by them."""
        return super().id

    def use_count(self) -> int:
        """1 plus the number of active use_mem_pool blocks on the pool's device."""
        return super().use_count()

    def snapshot(self) -> list[dict[str, Any]]:
        """memory_snapshot() of this pool alone."""
        return _C._npu_memory_snapshot(self.id)["segments"]


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Context manager: allocations of this thread on `device` come from `pool`. Other threads, such as backward()'s, are not
    affected."""
    if not isinstance(pool, MemPool):
        raise TypeError(f"a torch.npu.MemPool is needed, but got {type(pool).__name__}")
    use = _C._UsePool(pool, _get_device_index(device, optional=True))
    try:
        yield
    finally:
        del use
