"""Memory goes back to the device after all work that may use it, on whatever stream; a wait that fails keeps the memory."""

import gc
import sys
import threading

import pytest
import torch
from torch_npu import softnpu

from tests.support import MIB, Gate, cached, two_devices

SIZE = 4 * MIB  # elements: a segment of its own


def busy():
    """Holds the current stream for a while."""
    torch.npu._sleep(100_000_000)


def overwrite():
    """What takes over memory that was given back, with ones."""
    with torch.npu.stream(torch.npu.Stream()):
        return [torch.ones(SIZE, device="npu") for _ in range(6)]


def assert_sevens(result):
    ones = overwrite()
    torch.npu.synchronize()
    assert (float(result.min()), float(result.max())) == (7, 7)
    del ones


def sevens_on(stream):
    """A tensor of another stream, which is idle, for the current one, which does not name itself as a user."""
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
def test_a_graph_goes_before_its_output_is_read(first, how):
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
def test_a_graphed_module_goes_before_its_result_is_read():
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
def test_a_pool_goes_before_its_memory_is_read():
    side, pool = torch.npu.Stream(), torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        batch = sevens_on(side)
    busy()
    result = batch * 1.0
    del batch, pool
    assert_sevens(result)


@cached
@two_devices
def test_memory_comes_from_its_own_device_after_streams_of_another_were_marked():
    """Freed in a capture, so that the user of the memory is marked when more is asked for."""
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


# In the child, so that the settings and modes are those of the whole process.
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
def test_every_way_to_give_memory_back_waits_in_every_mode(run, way, mode):
    assert run(WAYS[way], **MODES[mode]).stderr == ""


@cached
def test_collecting_garbage_waits(run):
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
def test_uncached_memory_that_is_freed_in_a_capture_leaves_the_capture_alone(run):
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
def test_nothing_is_waited_for_where_nothing_goes_back(run):
    """The gate opens after the calls, which would hang otherwise."""
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
@pytest.mark.usefixtures("empty_device")
def test_a_failed_task_is_raised_and_the_memory_goes_back_afterwards():
    x = torch.ones(SIZE, device="npu")
    torch.npu.synchronize()
    reserved = torch.npu.memory_reserved()
    with softnpu.faults("launch:1"):
        with torch.npu.stream(torch.npu.Stream()):
            y = torch.ones(SIZE, device="npu")
        del y
        with pytest.raises(RuntimeError, match="aclnn"):
            torch.npu.empty_cache()
    assert torch.npu.memory_reserved() > reserved
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved
    del x


@cached
@pytest.mark.usefixtures("empty_device")
def test_a_failed_task_that_a_destructor_meets_is_raised_by_the_next_wait():
    reserved = torch.npu.memory_reserved()
    pool = torch.npu.MemPool()
    with torch.npu.use_mem_pool(pool):
        x = torch.empty(SIZE, device="npu")
    with softnpu.faults("launch:1"):
        x += 1
        del x, pool
    with pytest.raises(RuntimeError, match="aclnn"):
        torch.npu.synchronize()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved


@cached
def test_a_replay_that_failed_is_raised_by_reset_and_the_next_one_works():
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x.exp()
    torch.npu.synchronize()
    with softnpu.faults("launch:1"):
        graph.replay()
        with pytest.raises(RuntimeError, match="aclnnExp"):
            graph.reset()
    graph.replay()
    torch.testing.assert_close(y.cpu(), torch.ones(4).exp())
    graph.reset()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()


@cached
def test_memory_of_a_graph_in_use_is_not_given_back_for_an_allocation_from_its_pool(run):
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


@cached
def test_a_capture_that_begins_while_memory_goes_back_is_not_spoiled():
    failures = []

    def watch(function):
        def call():
            try:
                function()
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        return thread

    def capture():
        graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
        with torch.npu.stream(stream):
            for _ in range(10):
                graph.capture_begin(capture_error_mode="thread_local")
                y = x + 1
                graph.capture_end()
                graph.replay()
                assert y.tolist() == [2] * 4
                graph.reset()

    def release():
        with torch.npu.stream(torch.npu.Stream()):
            for _ in range(10):
                torch.empty(SIZE, device="npu")
                torch.npu._sleep(5_000_000)
                torch.npu.empty_cache()

    x = torch.ones(4, device="npu")
    torch.npu.synchronize()
    threads = [watch(capture), watch(release)]
    for thread in threads:
        thread.join()
    assert failures == []


def use_on_a_side_stream(requests, replies):
    x = requests.get()
    side = torch.npu.Stream()
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        busy()
        y = x * 1.0
    del x
    replies.put((float(y.min()), float(y.max())))


def drop_while_another_thread_holds_the_stream(requests, replies):
    x, gate, about_to_drop = requests.get(), Gate(), threading.Event()

    def open_gate():
        about_to_drop.wait()
        gate._libc.sem_post(gate._semaphore)

    opener = threading.Thread(target=open_gate)
    opener.start()
    y = x * 1.0
    sys.setswitchinterval(1000)  # the opener runs when this thread gives the interpreter's lock up
    about_to_drop.set()
    del x
    opener.join()
    replies.put((float(y.min()), float(y.max())))


def drop_in_a_capture(requests, replies):
    x, y = requests.get(), torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        z = y * 7
        del x
    graph.replay()
    replies.put((float(z.min()), float(z.max())))
    torch.npu.ipc_collect()


@pytest.mark.parametrize(
    "use",
    [use_on_a_side_stream, drop_while_another_thread_holds_the_stream, pytest.param(drop_in_a_capture, marks=cached)],
)
def test_received_memory_is_unmapped_after_all_work(use):
    context = torch.multiprocessing.get_context("spawn")
    requests, replies = context.Queue(), context.Queue()
    process = context.Process(target=use, args=(requests, replies))
    process.start()
    x = torch.full((SIZE,), 7.0, device="npu")
    requests.put(x)
    assert replies.get(timeout=120) == (7, 7)
    process.join(120)
    assert process.exitcode == 0


def test_nothing_is_mapped_beside_pages_that_another_thread_gives_back(child):
    done = child(
        """
        import threading, torch
        MIB = 1 << 20
        def make(size, value):
            return torch.full((size * MIB,), value, dtype=torch.uint8, device="npu")
        def ask_for_too_much():
            try:
                torch.empty(300 * MIB, dtype=torch.uint8, device="npu")
            except torch.OutOfMemoryError:
                print("refused")
        old = make(40, 1)
        torch.npu.synchronize()
        del old
        side = torch.npu.Stream()
        with torch.npu.stream(side):
            torch.npu._sleep(10**9)  # holds the release, which waits for all streams
        thread = threading.Thread(target=ask_for_too_much)
        thread.start()
        while torch.npu.memory_stats()["num_alloc_retries"] == 0: ...
        first = make(30, 7)
        thread.join()
        second = make(60, 9)
        print(first.unique().tolist(), second.unique().tolist())
        del first, second
        torch.npu.empty_cache()
        print(torch.npu.memory_reserved())
        """,
        SOFTNPU_DEVICE_MEMORY="256M",
        PYTORCH_NPU_ALLOC_CONF="expandable_segments:True",
    )
    assert (done.stdout, done.returncode) == ("refused\n[7] [9]\n0\n", 0), done.stderr
