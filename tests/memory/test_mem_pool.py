"""Private memory pools and user allocators."""

import os
import subprocess
import threading

import pytest
import torch

from tests.support import MIB, cached

pytestmark = pytest.mark.usefixtures("empty_device")


def make(size=1000):
    return torch.empty(size, dtype=torch.uint8, device="npu")


def pool_of(tensor):
    for segment in torch.npu.memory_snapshot():
        if segment["address"] <= tensor.data_ptr() < segment["address"] + segment["total_size"]:
            return segment["segment_pool_id"]
    return None


@cached
def test_memory_of_a_pool_is_kept_apart():
    pool = torch.npu.MemPool()
    outside = make()
    with torch.npu.use_mem_pool(pool):
        inside = make()
    after = make()
    assert (pool_of(outside), pool_of(inside), pool_of(after)) == ((0, 0), pool.id, (0, 0))
    address = inside.data_ptr()
    del inside
    assert make().data_ptr() != address
    with torch.npu.use_mem_pool(pool):
        assert make().data_ptr() == address
    (segment,) = pool.snapshot()
    assert segment["segment_pool_id"] == pool.id
    assert segment["total_size"] == 2 * MIB


@cached
def test_a_pool_keeps_its_memory_until_it_is_deleted():
    before = torch.npu.memory_reserved()
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        small, large = make(), make(30 * MIB)
    del small, large
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == before + 32 * MIB
    del pool
    assert torch.npu.memory_reserved() == before


@cached
def test_memory_outlives_its_pool():
    before = torch.npu.memory_reserved()
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        x = torch.full((1000,), 7.0, device="npu")
    del pool
    assert torch.npu.memory_reserved() == before + 2 * MIB
    assert x.sum().item() == 7000
    del x
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == before


def test_uses_are_counted_and_ids_differ():
    pool, other = torch.npu.MemPool(), torch.npu.MemPool()
    assert pool.id != other.id
    assert all(isinstance(part, int) for part in pool.id)
    assert pool.use_count() == 1
    with torch.npu.use_mem_pool(pool):
        assert pool.use_count() == 2
        with torch.npu.use_mem_pool(pool):
            assert pool.use_count() == 3
    assert pool.use_count() == 1
    assert pool.allocator is None


@cached
def test_the_innermost_pool_is_used_and_restored_after_an_error():
    pool, other = torch.npu.MemPool(), torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        with pytest.raises(ZeroDivisionError), torch.npu.use_mem_pool(other):
            x = make()
            assert 1 / 0
        y = make()
    assert (pool_of(x), pool_of(y), pool_of(make())) == (other.id, pool.id, (0, 0))


@cached
def test_only_the_thread_that_uses_a_pool_gets_its_memory():
    pool = torch.npu.MemPool()
    made = {}
    with torch.npu.use_mem_pool(pool):
        thread = threading.Thread(target=lambda: made.update(x=make()))
        thread.start()
        thread.join()
    assert pool_of(made["x"]) == (0, 0)
    assert pool.snapshot() == []


@cached
def test_a_pool_is_used_on_the_device_that_is_named():
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool, device="npu:1"):
        here, there = make(), torch.empty(10, device="npu:1")
        assert pool_of(here) == (0, 0)
        assert [segment["device"] for segment in pool.snapshot()] == [1]
        del there
    assert torch.npu.memory_reserved("npu:1") == 0


@cached
def test_a_pool_runs_out_like_the_device(child):
    done = child(
        """
        import torch
        pool = torch.npu.MemPool()
        outside = torch.empty(60 << 20, dtype=torch.uint8, device="npu")
        del outside
        with torch.npu.use_mem_pool(pool):
            inside = torch.empty(100 << 20, dtype=torch.uint8, device="npu")   # the cache outside is emptied for it
            try:
                torch.empty(100 << 20, dtype=torch.uint8, device="npu")
            except torch.OutOfMemoryError as error:
                print("out of memory" in str(error))
            del inside
        try:
            torch.empty(100 << 20, dtype=torch.uint8, device="npu")            # the pool is not
        except torch.OutOfMemoryError:
            print("kept")
        """,
        SOFTNPU_DEVICE_MEMORY="128M",
    )
    assert done.stdout == "True\nkept\n", done.stderr


def test_results_in_a_pool_are_those_of_the_cpu():
    x = torch.randn(64, 64)
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        y = (x.npu() @ x.npu()).softmax(1)
    torch.testing.assert_close(y.cpu(), (x @ x).softmax(1), rtol=1e-4, atol=1e-5)


def test_an_argument_that_is_not_a_pool_is_named():
    with pytest.raises(TypeError, match="MemPool"), torch.npu.use_mem_pool("mine"):
        pass
    with pytest.raises(TypeError, match="NPUPluggableAllocator"):
        torch.npu.memory.change_current_allocator("mine")


SOURCE = """
#include <stddef.h>
#include <dlfcn.h>
typedef int (*Malloc)(void**, size_t, int);
typedef int (*Free)(void*);
static long counts[2], bytes, last_device = -1;
void* my_alloc(size_t size, int device, void* stream) {
  void* address = NULL;
  if (size > (1 << 28)) return NULL;
  if (((Malloc)dlsym(RTLD_DEFAULT, "aclrtMalloc"))(&address, size, 0) != 0) return NULL;
  counts[0]++; bytes += size; last_device = device;
  return address;
}
void my_free(void* address, size_t size, int device, void* stream) {
  counts[1]++; bytes -= size;
  ((Free)dlsym(RTLD_DEFAULT, "aclrtFree"))(address);
}
long allocated() { return counts[0]; }
long freed() { return counts[1]; }
long live() { return bytes; }
"""

PRELUDE = """
import ctypes, sys, torch
torch.npu.init()
ctypes.CDLL(torch.npu.library_info()["path"], ctypes.RTLD_GLOBAL)
path = sys.argv[1]
mine = ctypes.CDLL(path)
allocator = torch.npu.memory.NPUPluggableAllocator(path, "my_alloc", "my_free")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("allocator")
    source, path = folder / "mine.c", folder / "mine.so"
    source.write_text(SOURCE)
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture
def run(child, library):
    return lambda program: child(PRELUDE + program, library)


def test_a_user_allocator_replaces_the_caching_allocator(run):
    done = run("""
print(torch.npu.get_allocator_backend())
torch.npu.memory.change_current_allocator(allocator)
print(torch.npu.get_allocator_backend())
x = torch.arange(1000.0, device="npu")
y = (x * 2).sum().item()
print(y, mine.allocated() >= 2, mine.live() >= 4000)
x.record_stream(torch.npu.Stream())
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    print("null pointer" in str(error))
for call in (torch.npu.memory_allocated, lambda: torch.npu.memory.change_current_allocator(allocator)):
    try:
        call()
    except RuntimeError as error:
        print(str(error).splitlines()[0])
del x
torch.npu.empty_cache()
print(mine.live(), mine.allocated() == mine.freed())
""")
    assert done.stdout.splitlines() == [
        "native",
        "pluggable",
        "999000.0 True True",
        "True",
        "the allocator that change_current_allocator() set keeps no statistics and has no limits",
        "the allocator of npu was changed already, which works once",
        "0 True",
    ], done.stderr


def test_a_user_allocator_after_the_first_tensor_is_refused(run):
    done = run("""
torch.ones(1, device="npu")
try:
    torch.npu.memory.change_current_allocator(allocator)
except RuntimeError as error:
    print(str(error).splitlines()[0])
""")
    assert done.stdout.startswith("the allocator of npu was used already and cannot be changed"), done.stderr


@cached
def test_a_pool_can_use_a_user_allocator(run):
    done = run("""
pool = torch.npu.MemPool(allocator.allocator())
with torch.npu.use_mem_pool(pool):
    x = torch.arange(1000.0, device="npu")
y = torch.arange(1000.0, device="npu")
print(mine.allocated(), mine.live() == 2 << 20, torch.equal(x, y), torch.npu.memory_reserved() == 4 << 20)
del x, pool
print(mine.freed(), mine.live())
""")
    assert done.stdout == "1 True True True\n1 0\n", done.stderr


def test_missing_allocator_functions_are_named(library):
    with pytest.raises(ValueError, match="no function 'my_malloc'"):
        torch.npu.memory.NPUPluggableAllocator(str(library), "my_malloc", "my_free")
    with pytest.raises(OSError, match=r"nowhere\.so"):
        torch.npu.memory.NPUPluggableAllocator("/nowhere.so", "my_alloc", "my_free")


@cached
def test_allocator_functions_can_take_the_global_lock_of_python(python):
    done = python("""
import ctypes, threading, time
import torch
from torch_npu import _C

device = ctypes.CDLL(torch.npu.library_info()["path"])
inside = threading.Event()


def allocate(size, index, stream):
    address = ctypes.c_void_p()
    device.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(size), 0)
    inside.set()
    time.sleep(0.2)  # without Python's lock, which the other thread then takes to the allocator
    return address.value


def free(address, size, index, stream):
    inside.set()
    time.sleep(0.2)
    device.aclrtFree(ctypes.c_void_p(address))


functions = (
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(allocate),
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(free),
)
allocator = _C._npu_customAllocator(*(ctypes.cast(function, ctypes.c_void_p).value for function in functions))
pools = [_C._MemPool(allocator)]


def use():
    with_pool = _C._UsePool(pools[0], 0)
    torch.empty(1000, device="npu")
    del with_pool


torch.ones(2, device="npu")
for work in (use, pools.clear):
    inside.clear()
    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    torch.npu.memory_stats()
    thread.join()
    print("done")
""")
    assert done.stdout.split() == ["done", "done"], done.stderr
