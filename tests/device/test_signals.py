"""Ctrl-C, and any other signal, reaches Python while it waits for the device."""

import pytest

# A gate holds a stream until open() is called. `interrupt` sends a signal when the main thread is inside the next call that
# releases Python's global lock. The switch interval is so long that no thread is forced to release the lock.
BEGIN = """
import ctypes, os, signal, sys, threading
import torch

sys.setswitchinterval(1000)
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
device = ctypes.CDLL(torch.npu.library_info()["path"])
libc = ctypes.CDLL(None)

class Gate:
    def __init__(self, stream=None):
        stream = stream or torch.npu.current_stream()
        self.semaphore = ctypes.create_string_buffer(64)
        libc.sem_init(self.semaphore, 0, 0)
        code = device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), libc.sem_wait, self.semaphore)
        assert code == 0, code
    def open(self):
        libc.sem_post(self.semaphore)

def interrupt(number=signal.SIGINT):
    sent = threading.Event()
    def send():
        sent.wait()
        os.kill(os.getpid(), number)
    threading.Thread(target=send, daemon=True).start()
    sent.set()

def behind():
    "Launches work. Returns its result, the expected sum, and an event after it."
    x = torch.arange(1000, device="npu") + 1
    event = torch.npu.Event()
    event.record()
    return x, 500500, event

def waits(x, event):
    return {
        "torch.npu.synchronize": torch.npu.synchronize,
        "torch.accelerator.synchronize": torch.accelerator.synchronize,
        "item": x[0].item,
        "cpu": x.cpu,
        "tolist": x.tolist,
        "nonzero": x.nonzero,
        "to another device": lambda: x.to("npu:1").cpu() if torch.npu.device_count() > 1 else x.cpu(),
        "from the host": lambda: x.copy_(torch.ones(1000, dtype=torch.int64)),
        "event.synchronize": event.synchronize,
        "stream.synchronize": torch.npu.current_stream().synchronize,
    }

torch.ones(3, device="npu")
torch.npu.synchronize()
"""


@pytest.fixture
def run(python):
    def run(program, status=0, **environment):
        done = python(BEGIN + program, **environment)
        assert done.returncode == status, f"{program}\nended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.mark.parametrize("mode", ["hybrid", "queue"])
def test_an_interrupt_ends_every_wait_and_nothing_else(run, mode):
    """The work continues, later calls work, and the memory statistics are right."""
    run(
        """
for name in waits(torch.ones(1, device="npu"), torch.npu.Event()):
    before = torch.npu.memory_allocated()
    gate = Gate()
    x, total, event = behind()
    wait = waits(x, event)[name]
    try:
        interrupt()
        wait()
        sys.exit(name + " was not interrupted")
    except KeyboardInterrupt:
        assert not event.query(), name
    later = x.sum()
    assert not event.query(), name
    gate.open()
    assert later.item() == total, name
    event.synchronize()
    assert event.query(), name
    del x, later, wait
    torch.npu.synchronize()
    assert torch.npu.memory_allocated() == before, name
""",
        SOFTNPU_LAUNCH=mode,
    )


def test_an_interrupt_comes_before_the_end_of_a_long_queue(run):
    """The waiting thread executes queued tasks itself, and stops after the signal."""
    run(
        """
for big in (False, True):
    x = torch.zeros(1 << 20 if big else 1000, device="npu")
    hold = Gate()
    for _ in range(900):
        x += 1
    gate = Gate()
    x, event = x + 1, torch.npu.Event()
    event.record()
    try:
        interrupt()
        hold.open()
        x[0].item()
        sys.exit("not interrupted")
    except KeyboardInterrupt:
        assert not event.query()
    gate.open()
    assert x[0].item() == x[-1].item() == 901
"""
    )


def test_an_interrupt_comes_before_the_end_of_a_long_operator(run):
    run(
        """
for size in (2048, 3072, 6144):  # a thread may be kept from the processor for longer than an operator takes
    x = torch.ones(size, size, device="npu")
    torch.npu.synchronize()
    y, event = x @ x, torch.npu.Event()
    event.record()
    try:
        interrupt()
        y[0, 0].item()
        threading.Event().wait(100)
        sys.exit("the signal never came")
    except KeyboardInterrupt:
        was_under_way = not event.query()
    assert y[0, 0].item() == size
    if was_under_way:
        break
else:
    sys.exit("not interrupted")
"""
    )


def test_a_handler_that_returns_lets_the_wait_go_on(run):
    """The handler runs during the wait, because it opens the gate. It may use the device."""
    done = run(
        """
for name in waits(torch.ones(1, device="npu"), torch.npu.Event()):
    gate = Gate()
    x, total, event = behind()
    wait = waits(x, event)[name]
    side = torch.npu.Stream()
    def handle(*_):
        with torch.npu.stream(side):
            assert torch.ones(10, device="npu").sum().item() == 10
        assert not event.query()
        gate.open()
        print("handled")
    signal.signal(signal.SIGUSR1, handle)
    interrupt(signal.SIGUSR1)
    wait()
    assert event.query(), name
    assert x.sum().item() in (total, 1000), name
"""
    )
    assert done.stdout.count("handled") == 10


def test_a_handler_that_raises_ends_the_wait_with_its_exception(run):
    run(
        """
class Enough(Exception):
    pass
def handle(*_):
    raise Enough("planned")
signal.signal(signal.SIGALRM, handle)
gate = Gate()
x, total, event = behind()
try:
    interrupt(signal.SIGALRM)
    x.cpu()
    sys.exit("not interrupted")
except Enough as error:
    assert str(error) == "planned"
gate.open()
assert x.sum().item() == total
"""
    )


def test_other_threads_go_on_waiting(run):
    run(
        """
gate = Gate()
x, total, event = behind()
sums, inside, finished = [], threading.Event(), threading.Event()
def work():
    inside.set()
    sums.append(x.sum().item())
    finished.set()
thread = threading.Thread(target=work)
thread.start()
try:
    inside.wait()
    interrupt()
    while not finished.wait(0.05):  # a signal just before a wait without end would not end it
        pass
    sys.exit("not interrupted")
except KeyboardInterrupt:
    assert not finished.is_set() and not event.query()
gate.open()
finished.wait()
assert sums == [total]
"""
    )


def test_an_interrupt_in_backward_leaves_autograd_in_order(run):
    run(
        """
class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        interrupt()
        grad.to("npu").sum().item()
        sys.exit("not interrupted")
x = torch.ones(3, requires_grad=True)
gate = Gate()
try:
    Waits.apply(x).sum().backward()
    sys.exit("not interrupted")
except KeyboardInterrupt:
    gate.open()
y = torch.ones(3, device="npu", requires_grad=True)
(y * y).sum().backward()
assert y.grad.tolist() == [2, 2, 2]
"""
    )


def test_an_interrupted_wait_for_memory_releases_the_allocator_lock(run):
    """Another thread may wait for the allocator's lock while it holds Python's global lock."""
    run(
        """
sys.setswitchinterval(0.001)
side = torch.npu.Stream()
x, y = torch.ones(1024, 1024, device="npu"), torch.ones(8 << 20, device="npu")
torch.npu.synchronize()
with torch.npu.stream(side):
    for _ in range(6):
        x = x @ x
        x.clamp_(0, 1)
y.record_stream(side)
del y
done = []
def churn():
    while not done:
        torch.empty(1000, device="npu")
thread = threading.Thread(target=churn)
thread.start()
try:
    interrupt()
    torch.npu.empty_cache()
    threading.Event().wait(100)
except KeyboardInterrupt:
    pass
else:
    sys.exit("not interrupted afterwards")
finally:
    done.append(True)
thread.join()
assert torch.ones(3, device="npu").sum().item() == 3
"""
    )


def test_an_unhandled_interrupt_ends_the_process(run):
    """The process ends although the gate is never opened."""
    done = run("gate = Gate(); x, total, event = behind(); interrupt(); x.cpu()", status=-2)
    assert "KeyboardInterrupt" in done.stderr


# A graph whose pool has free memory, and whose replay waits for a gate.
REPLAYED = """
def reserved():
    torch.npu.synchronize()
    torch.npu.empty_cache()
    return torch.npu.memory_reserved()

total = torch.zeros(1, device="npu")
graph = torch.npu.NPUGraph()
before = reserved()
with torch.npu.graph(graph):
    total.copy_(torch.full((4 << 20,), 7.0, device="npu").mean())
torch.npu.synchronize()
gate = Gate()
graph.replay()

def assert_memory_is_kept():
    "No new tensor gets the memory that the replay writes."
    assert not torch.npu.current_stream().query()
    with torch.npu.stream(torch.npu.Stream()):
        mine = [torch.ones(4 << 20, device="npu") for _ in range(4)]
        torch.npu.current_stream().synchronize()
    gate.open()
    torch.npu.synchronize()
    assert total.item() == 7
    assert all(each.max().item() == 1 for each in mine)
"""


def test_an_interrupted_reset_leaves_the_graph_as_it_is(run):
    run(
        REPLAYED
        + """
try:
    interrupt()
    graph.reset()
    sys.exit("not interrupted")
except KeyboardInterrupt:
    pass
assert_memory_is_kept()
total.zero_()
graph.replay()
assert total.item() == 7
graph.reset()
assert reserved() == before
try:
    graph.replay()
    sys.exit("replayed after reset")
except RuntimeError as error:
    assert "holds no graph" in str(error), error
"""
    )


def test_deleting_a_replaying_graph_keeps_its_memory_and_the_interrupt(run):
    run(
        REPLAYED
        + """
try:
    interrupt()
    del graph
    for _ in range(2):
        pass  # Python looks for interrupts in loops and calls
    sys.exit("the interrupt was lost")
except KeyboardInterrupt:
    pass
assert_memory_is_kept()
assert reserved() == before
"""
    )


def test_an_exception_of_a_handler_during_deletion_of_a_graph_is_reported(run):
    run(
        REPLAYED
        + """
class Stop(Exception):
    pass
def handler(*_):
    raise Stop("enough")
reported = []
sys.unraisablehook = lambda report: reported.append(repr(report.exc_value))
signal.signal(signal.SIGUSR1, handler)
interrupt(signal.SIGUSR1)
del graph
assert reported == ["Stop('enough')"], reported
assert_memory_is_kept()
assert reserved() == before
"""
    )


def test_deleting_a_pool_in_use_keeps_its_memory_and_the_interrupt(run):
    run(
        """
torch.npu.empty_cache()
before = torch.npu.memory_reserved()
pool = torch.npu.MemPool()
with torch.npu.use_mem_pool(pool):
    x = torch.full((4 << 20,), 7.0, device="npu")
gate = Gate()
y = x.mean()
del x
try:
    interrupt()
    del pool
    for _ in range(2):
        pass  # Python looks for interrupts in loops and calls
    sys.exit("the interrupt was lost")
except KeyboardInterrupt:
    pass
assert not torch.npu.current_stream().query()
gate.open()
assert y.item() == 7
del y
torch.npu.empty_cache()
assert torch.npu.memory_reserved() == before
"""
    )


def test_an_interrupted_empty_cache_releases_memory_at_the_next_call(run):
    run(
        """
torch.npu.empty_cache()
before = torch.npu.memory_reserved()
x = torch.full((4 << 20,), 7.0, device="npu")
gate = Gate()
y = x.mean()
del x
try:
    interrupt()
    torch.npu.empty_cache()
    sys.exit("not interrupted")
except KeyboardInterrupt:
    assert torch.npu.memory_reserved() > before
gate.open()
assert y.item() == 7
del y
torch.npu.empty_cache()
assert torch.npu.memory_reserved() == before
"""
    )


@pytest.mark.parametrize(
    "limit", [{"ACL_STREAM_TIMEOUT": "1000"}, {"ACL_DEVICE_SYNC_TIMEOUT": "1"}], ids=lambda limit: next(iter(limit))
)
def test_a_wait_that_times_out_releases_no_memory(run, limit):
    """reset() waits for an event of the replay, and then for the device. Each wait has a limit of its own."""
    run(
        REPLAYED
        + """
(name,) = (name for name in ("ACL_STREAM_TIMEOUT", "ACL_DEVICE_SYNC_TIMEOUT") if name in os.environ)
if name == "ACL_DEVICE_SYNC_TIMEOUT":
    gate.open()
    torch.npu.synchronize()
    total.zero_()
    gate = Gate()
    total += 7
try:
    graph.reset()
    sys.exit("the limit has no effect")
except RuntimeError as error:
    assert name in str(error), error
del graph
assert_memory_is_kept()
assert reserved() == before
""",
        **limit,
    )
