"""Memory is released to the device after all work that may use it, on any stream."""

import gc

import pytest
import torch

from tests.support import MIB, cached, two_devices

SIZE = 4 * MIB  # elements: a segment of its own


def busy():
    """Holds the current stream for a while."""
    torch.npu._sleep(100_000_000)


def overwrite():
    """Allocates memory, which reuses any that was released, and fills it with ones."""
    with torch.npu.stream(torch.npu.Stream()):
        return [torch.ones(SIZE, device="npu") for _ in range(6)]


def assert_sevens(result):
    ones = overwrite()
    torch.npu.synchronize()
    assert (float(result.min()), float(result.max())) == (7, 7)
    del ones


def sevens_on(stream):
    """A tensor of sevens, allocated on another, now idle stream. The current stream uses it without record_stream()."""
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        batch = torch.full((SIZE,), 7.0, device="npu")
    stream.synchronize()
    return batch


def captured_sevens():
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = torch.full((SIZE,), 7.0, device="npu")
    torch.npu.synchronize()
    return graph, y


@cached
@pytest.mark.parametrize("first", ["graph", "tensor"])
@pytest.mark.parametrize("how", ["del", "reset"])
def test_memory_of_a_deleted_graph_stays_until_its_output_was_read(first, how):
    graph, y = captured_sevens()
    graph.replay()
    busy()
    result = y.clone()
    if first == "tensor":
        del y
    if how == "reset":
        graph.reset()
    del graph
    if first == "graph":
        del y
        torch.npu.empty_cache()
    assert_sevens(result)


@cached
def test_the_copy_of_a_replayed_result_is_right():
    def once(x):
        y = torch.zeros_like(x)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x * 7
        graph.replay()
        return y.clone()

    x = torch.ones(SIZE, device="npu")
    for _ in range(4):
        result = once(x)
        other = torch.zeros(SIZE, device="npu")
        assert bool((result == 7).all())
        del other


@cached
def test_memory_of_a_deleted_graphed_module_stays_until_its_result_was_read():
    model = torch.nn.Linear(4, SIZE // 4, device="npu")
    with torch.no_grad():
        model.weight.zero_()
        model.bias.fill_(7.0)
    x = torch.zeros(4, 4, device="npu", requires_grad=True)
    graphed = torch.npu.make_graphed_callables(model, (x,))
    output = graphed(x.detach().clone().requires_grad_()).detach()
    busy()
    result = output.clone()
    del graphed, model, output, x
    gc.collect()
    assert_sevens(result)


@cached
def test_memory_of_a_deleted_pool_stays_until_it_was_read():
    side, pool = torch.npu.Stream(), torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        batch = sevens_on(side)
    busy()
    result = batch * 1.0
    del batch, pool
    assert_sevens(result)


@cached
@two_devices
def test_an_allocation_is_made_on_its_device_after_recording_a_stream_of_another_device():
    """The tensor is freed in a capture, so that its stream is recorded at the next allocation."""
    x, y = torch.empty(SIZE, device="npu:0"), torch.ones(4, device="npu:0")
    torch.ones(1, device="npu:1")
    with torch.npu.device(1):
        x.record_stream(torch.npu.Stream())
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        del x
        y += 1
    free = torch.npu.mem_get_info(1)[0]
    large = torch.empty(64 * MIB, device="npu:0")
    assert torch.npu.mem_get_info(1)[0] == free
    del large


@cached
@two_devices
def test_memory_is_kept_for_streams_of_another_device():
    batch = sevens_on(torch.npu.Stream())
    there = torch.empty(SIZE, device="npu:1")
    with torch.npu.device(1):
        torch.npu._sleep(100_000_000)
    there.copy_(batch)  # waits for the other device first
    del batch
    torch.npu.empty_cache()
    ones = overwrite()
    torch.npu.synchronize()
    torch.npu.synchronize(1)
    assert (float(there.min()), float(there.max())) == (7, 7)
    del ones


PROGRAM = """
import sys, threading
import torch
from torch_npu import softnpu

SIZE = 5 << 20  # 20 MiB: a page of an expandable segment

def sevens_on(stream):
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        batch = torch.full((SIZE,), 7.0, device="npu")
    stream.synchronize()
    return batch

def check(result):
    with torch.npu.stream(torch.npu.Stream()):
        ones = [torch.ones(SIZE, device="npu") for _ in range(4)]
    torch.npu.synchronize()
    assert (float(result.min()), float(result.max())) == (7, 7), (float(result.min()), float(result.max()))
"""


@pytest.fixture
def run(python):
    def run(program, **environment):
        done = python(PROGRAM + program, **environment)
        assert done.returncode == 0, f"{program}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run


# They run in a child process, so that settings and modes apply to a whole process.
WAYS = {
    "empty_cache": """
batch = sevens_on(torch.npu.Stream())
torch.npu._sleep(100_000_000)
result = batch * 1.0
del batch
torch.npu.empty_cache()
check(result)
""",
    "retry": """
torch.npu.set_per_process_memory_fraction(115e6 / torch.npu.mem_get_info()[1])
batch = sevens_on(torch.npu.Stream())
result = torch.empty(SIZE, device="npu")
torch.npu._sleep(100_000_000)
result.copy_(batch)
del batch
large = torch.ones(20 << 20, device="npu")
assert torch.npu.memory_stats()["num_alloc_retries"] == 1
torch.npu.synchronize()
assert (float(result.min()), float(result.max())) == (7, 7), (float(result.min()), float(result.max()))
""",
    "graph": """
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    y = torch.full((SIZE,), 7.0, device="npu")
torch.npu.synchronize()
graph.replay()
torch.npu._sleep(100_000_000)
result = y.clone()
del y, graph
check(result)
""",
}


MODES = {
    "plain": {},
    "expandable": {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"},
    "queue": {"SOFTNPU_LAUNCH": "queue"},
    "shuffle": {"SOFTNPU_LAUNCH": "shuffle"},
    "races": {"SOFTNPU_RACE_CHECK": "fail"},
}


@cached
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_every_release_of_memory_waits_for_its_users_in_every_mode(run, way, mode):
    assert run(WAYS[way], **MODES[mode]).stderr == ""


@cached
def test_garbage_collection_waits_for_users_of_the_memory(run):
    run(
        """
torch.npu.set_per_process_memory_fraction(100e6 / torch.npu.mem_get_info()[1])
batch = sevens_on(torch.npu.Stream())
result = torch.empty(SIZE, device="npu")
torch.npu._sleep(100_000_000)
result.copy_(batch)
del batch
before = torch.npu.memory_stats()["num_device_free"]
large = torch.ones(10 << 20, device="npu")
assert torch.npu.memory_stats()["num_device_free"] > before
assert torch.npu.memory_stats()["num_alloc_retries"] == 0
torch.npu.synchronize()
assert (float(result.min()), float(result.max())) == (7, 7), (float(result.min()), float(result.max()))
""",
        PYTORCH_NPU_ALLOC_CONF="garbage_collection_threshold:0.5",
    )


@pytest.mark.parametrize("mode", ["plain", "queue", "races"])
def test_uncached_memory_is_freed_after_streams_in_event_order(run, mode):
    done = run(
        """
batch = sevens_on(torch.npu.Stream())
torch.npu._sleep(100_000_000)
result = batch * 1.0
del batch
check(result)
assert torch.npu.memory_reserved() == result.nbytes, torch.npu.memory_reserved()
""",
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
        **MODES[mode],
    )
    assert done.stderr == ""


@cached
def test_freeing_uncached_memory_in_a_capture_does_not_break_the_capture(run):
    run(
        """
torch.npu.caching_allocator_enable(False)
x = torch.ones(SIZE, device="npu")
torch.npu.caching_allocator_enable(True)
y = torch.ones(4, device="npu")
before = torch.npu.mem_get_info()[0]
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    del x
    z = y + 1
graph.replay()
torch.npu.synchronize()
assert z.tolist() == [2] * 4
assert torch.npu.mem_get_info()[0] >= before + SIZE * 4 - (4 << 20)
"""
    )


@cached
def test_calls_that_release_no_memory_do_not_wait(run):
    """The stream is held until after the calls. A call that waited would hang."""
    run(
        """
import ctypes
torch.npu.empty_cache()
x = torch.ones(SIZE, device="npu")  # no block is free
torch.npu.synchronize()
device, libc, semaphore = ctypes.CDLL(torch.npu.library_info()["path"]), ctypes.CDLL(None), ctypes.create_string_buffer(64)
libc.sem_init(semaphore, 0, 0)
assert device.aclrtLaunchHostFunc(None, libc.sem_wait, semaphore) == 0
torch.npu.empty_cache()
pool = torch.npu.MemPool()
with torch.npu.use_mem_pool(pool):
    pass
del pool
assert not torch.npu.current_stream().query()
libc.sem_post(semaphore)
"""
    )


@cached
def test_an_allocation_from_the_pool_of_a_live_graph_releases_none_of_its_memory(run):
    """A replay writes to memory that was freed during its capture."""
    run(
        """
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    x = torch.ones(SIZE, device="npu")
    y = x.sum()
    del x
torch.npu.synchronize()
torch.npu.set_per_process_memory_fraction(80e6 / torch.npu.mem_get_info()[1])
from torch_npu import _C
use = _C._UsePool(graph.pool(), 0)
try:
    torch.empty(18 << 20, device="npu")
    sys.exit("there was room")
except torch.OutOfMemoryError:
    pass
del use
with torch.npu.stream(torch.npu.Stream()):
    mine = [torch.full((SIZE // 2,), 3.0, device="npu") for _ in range(2)]
torch.npu.synchronize()
graph.replay()
assert y.item() == SIZE
assert all(float(each.min()) == float(each.max()) == 3 for each in mine)
"""
    )
