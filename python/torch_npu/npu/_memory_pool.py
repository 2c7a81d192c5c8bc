"""Private pools of device memory, and allocators of the user. Names are those of torch.npu.memory.

pool = torch.npu.MemPool()
with torch.npu.use_mem_pool(pool):
    x = torch.empty(1024, device="npu")     # of a segment that nobody outside of the pool gets

torch.npu.memory.change_current_allocator(torch.npu.memory.NPUPluggableAllocator("mine.so", "my_malloc", "my_free"))
"""

import contextlib
import ctypes

from .. import _C
from ._lazy import _lazy_init
from ._utils import _get_device_index


class _NPUAllocator:
    """An allocator as C++ knows it."""

    def __init__(self, allocator):
        self._allocator = allocator

    def allocator(self):
        return self._allocator


class NPUPluggableAllocator(_NPUAllocator):
    """Two C functions of a shared library:

    void* alloc_fn(size_t size, int device, aclrtStream stream);
    void free_fn(void* address, size_t size, int device, aclrtStream stream);
    """

    def __init__(self, path_to_so_file, alloc_fn_name, free_fn_name):
        library = ctypes.CDLL(path_to_so_file)
        super().__init__(_C._npu_customAllocator(*(_address(library, name) for name in (alloc_fn_name, free_fn_name))))


def _address(library, name):
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        raise ValueError(f'{library._name} has no function {name!r}; declare it extern "C" if it is of C++') from None


def change_current_allocator(allocator):
    """All device memory comes from `allocator` from now on. An error once device memory was used."""
    if not isinstance(allocator, _NPUAllocator):
        raise TypeError(f"an NPUPluggableAllocator is needed, but got {type(allocator).__name__}")
    _C._npu_changeCurrentAllocator(allocator.allocator())


def _get_current_allocator():
    return _NPUAllocator(_C._npu_getAllocator())


def get_allocator_backend():
    """ "native", or "pluggable" after change_current_allocator."""
    return _C._npu_getAllocator().name


class MemPool(_C._MemPool):
    """Memory that is kept apart from all other; see use_mem_pool. When the object goes, its unused memory goes back.

    allocator: what NPUPluggableAllocator(...).allocator() gives, for memory from there; None for the device's."""

    def __init__(self, allocator=None):
        _lazy_init()
        if isinstance(allocator, _NPUAllocator):
            allocator = allocator.allocator()
        if not isinstance(allocator, (_C._npu_NPUAllocator, type(None))):
            raise TypeError(f"the allocator of a pool must be an NPUPluggableAllocator, but got {type(allocator).__name__}")
        super().__init__(allocator)
        self._allocator = allocator

    @property
    def allocator(self):
        return self._allocator

    @property
    def id(self):
        """Two ints, as segments of a snapshot name their pool."""
        return super().id

    def use_count(self):
        """1, and 1 more for each use_mem_pool that is under way on the device on which it was made."""
        return super().use_count()

    def snapshot(self):
        """memory_snapshot() of this pool alone."""
        return _C._npu_memory_snapshot(self.id)["segments"]


@contextlib.contextmanager
def use_mem_pool(pool, device=None):
    """What this thread allocates on `device` meanwhile comes from `pool`; of threads it starts, such as backward()'s, not."""
    if not isinstance(pool, MemPool):
        raise TypeError(f"a torch.npu.MemPool is needed, but got {type(pool).__name__}")
    use = _C._UsePool(pool, _get_device_index(device, optional=True))
    try:
        yield
    finally:
        del use
