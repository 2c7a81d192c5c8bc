"""Tensors on npu in other processes: one memory, and who keeps it for how long."""

import ctypes
import gc
import os
import pickle
import signal
import threading
import traceback
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.multiprocessing
from support import MIB, Gate, cached, two_devices
from torch_npu.multiprocessing import reductions

KEPT = {}  # of the worker


def serve(requests, replies):
    """The worker: calls functions of this file, and answers with what they return or raise."""
    while True:
        request = requests.get()
        if request is None:
            return
        try:
            function, *arguments = request
            replies.put(function(*arguments))
        except Exception:
            replies.put(traceback.format_exc())
        del request, function, arguments
        gc.collect()


class Worker:
    def __init__(self):
        context = torch.multiprocessing.get_context("spawn")
        self.requests, self.replies = context.SimpleQueue(), context.Queue()
        self.process = context.Process(target=serve, args=(self.requests, self.replies))
        self.process.start()

    def ask(self, function, *arguments):
        self.requests.put((function, *arguments))

    def answer(self):
        return self.replies.get(timeout=120)

    def call(self, function, *arguments):
        self.ask(function, *arguments)
        return self.answer()


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.requests.put(None)
    worker.process.join(120)
    assert worker.process.exitcode == 0


def describe(x):
    return (x.device, x.dtype, x.shape, x.stride(), x.storage_offset(), x.requires_grad, type(x), x.detach().cpu())


def assert_is(got, x):
    assert isinstance(got, tuple), got
    *facts, values = got
    assert facts == [x.device, x.dtype, x.shape, x.stride(), x.storage_offset(), x.requires_grad, type(x)]
    assert torch.equal(values, x.detach().cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x,
        lambda x: x.view(3, 4).t()[1:, ::2],
        lambda x: x[5],
        lambda x: x[:0],
        lambda x: x.repeat(100_000)[7:],
    ],
    ids=["whole", "view", "scalar", "empty", "large"],
)
def test_a_tensor_arrives_as_it_is(worker, make, dtype):
    x = make(torch.arange(12, device="npu").to(dtype))
    assert_is(worker.call(describe, x), x)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_parameters_and_leaves_arrive(worker, requires_grad):
    x = torch.ones(3, device="npu")
    for sent in (torch.nn.Parameter(x, requires_grad=requires_grad), x.clone().requires_grad_(requires_grad)):
        assert_is(worker.call(describe, sent), sent)
    with pytest.raises(RuntimeError, match="non-leaf"):
        worker.requests.put((describe, x.clone().requires_grad_() * 2))


def state_of(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    return {name: value.cpu() for name, value in model.state_dict().items()}


def test_a_module_is_trained_where_it_was_made(worker):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).npu().share_memory()
    expected = {name: value.cpu() + ("running" not in name and "num" not in name) for name, value in model.state_dict().items()}
    assert {name: value.tolist() for name, value in worker.call(state_of, model).items()} == {
        name: value.tolist() for name, value in expected.items()
    }
    assert all(torch.equal(value.cpu(), expected[name]) for name, value in model.state_dict().items())


def look_at_parts(storage, sparse, views):
    x, row, whole = views
    row.fill_(9)
    return (
        bytes(storage),
        sparse.to_dense().cpu(),
        x.tolist(),
        whole.untyped_storage().data_ptr() == row.untyped_storage().data_ptr(),
    )


def test_storages_layouts_and_views_of_one_storage_arrive(worker):
    x = torch.zeros(2, 3, device="npu")
    storage = torch.tensor([1, 258], dtype=torch.int16, device="npu").untyped_storage()
    sparse = torch.eye(3).to_sparse()
    got = worker.call(look_at_parts, storage, sparse.npu(), (x, x[1], x.view(-1)))
    assert isinstance(got, tuple), got
    assert got[0] == b"\x01\x00\x02\x01"
    assert torch.equal(got[1], torch.eye(3))
    assert got[2:] == ([[0, 0, 0], [9, 9, 9]], True)
    assert x.tolist() == [[0, 0, 0], [9, 9, 9]]


def keep(name, x):
    KEPT[name] = x


def drop(name):
    del KEPT[name]


def value_of(name):
    return KEPT[name].tolist()


def test_later_writes_are_seen_on_both_sides(worker):
    x = torch.zeros(3, device="npu")
    worker.call(keep, "x", x)
    x.add_(1)
    torch.npu.synchronize()
    assert worker.call(value_of, "x") == [1, 1, 1]
    assert worker.call(fill, "x", 5) is None
    assert x.tolist() == [5, 5, 5]
    worker.call(drop, "x")


def fill(name, value):
    KEPT[name].fill_(value)
    torch.npu.synchronize()


def same_storage(name, x):
    return KEPT[name].untyped_storage()._cdata == x.untyped_storage()._cdata


def test_a_storage_that_is_there_is_not_opened_again(worker):
    x = torch.zeros(3, device="npu")
    worker.call(keep, "x", x)
    assert worker.call(same_storage, "x", x[1:]) is True
    worker.call(drop, "x")
    address = x.data_ptr()
    del x
    assert address == torch.zeros(3, device="npu").data_ptr(), "a message that opened nothing keeps the memory"


@cached
@pytest.mark.parametrize("elements", [100, 3 * MIB], ids=["small", "large"])
def test_memory_stays_until_all_have_let_go(worker, elements):
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.full((elements,), 7.0, device="npu")
    held = torch.npu.memory_allocated() - before
    worker.call(keep, "a", x)
    worker.call(keep, "b", x[1:])
    del x
    assert torch.npu.memory_allocated() == before + held
    torch.npu.empty_cache()
    others = [torch.full((elements,), float(value), device="npu") for value in range(5)]
    torch.npu.synchronize()
    assert set(worker.call(value_of, "a")) == {7}
    del others
    worker.call(drop, "a")
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before + held
    assert set(worker.call(value_of, "b")) == {7}
    worker.call(drop, "b")
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before


@cached
def test_memory_that_nobody_has_is_freed_at_once(worker):
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(100, device="npu")
    worker.call(describe, x)
    worker.call(keep, "other", 0)  # the worker has let go of x by then
    del x
    assert torch.npu.memory_allocated() == before


def test_work_of_the_sender_is_waited_for(worker):
    x = torch.zeros(1000, device="npu")
    stream = torch.npu.Stream()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream), Gate(stream):
        x.fill_(3)
        worker.ask(describe, x)
        assert not stream.query()
    assert_is(worker.answer(), x)


def current_stream_waits(x):
    return not torch.npu.current_stream(x.device).query()


def test_work_of_the_sender_is_waited_for_where_the_storage_is_there_already(worker):
    x = torch.zeros(1000, device="npu")
    worker.call(keep, "x", x)
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), Gate(stream):
        x.fill_(3)
        waits = worker.call(current_stream_waits, x)
    assert waits is True
    assert set(worker.call(value_of, "x")) == {3}
    worker.call(drop, "x")


def use_and_drop(name):
    x = KEPT.pop(name)
    libc, device = ctypes.CDLL(None), ctypes.CDLL(torch.npu.library_info()["path"])
    with torch.npu.stream(torch.npu.Stream()):
        stream = torch.npu.current_stream()
        device.aclrtLaunchHostFunc(ctypes.c_void_p(stream.npu_stream), libc.usleep, ctypes.c_void_p(100_000))
        y = x + 1
        x.record_stream(stream)
        del x
        return stream.query(), y.tolist()


def test_a_receiver_lets_go_when_its_streams_are_done(worker):
    worker.call(keep, "x", torch.ones(3, device="npu"))
    assert worker.call(use_and_drop, "x") == (True, [2, 2, 2])


def send_on(x):
    try:
        ForkingPickler.dumps(x)
    except RuntimeError as error:
        return str(error)


def grow(x):
    try:
        x.resize_(1000)
    except RuntimeError as error:
        return str(error)


def test_what_was_received_is_not_sent_on_nor_resized(worker):
    x = torch.ones(3, device="npu")
    assert "Consider cloning before sending" in worker.call(send_on, x)
    assert "not resizable" in worker.call(grow, x)


def wait_for(event, x):
    event.wait()
    return (x + 1).tolist()


def test_an_event_of_several_processes_says_so():
    event = torch.npu.Event(interprocess=True)
    assert repr(event) == repr(torch.npu.Event.from_ipc_handle("npu", event.ipc_handle())) == "<torch.npu.Event interprocess>"


def test_events_are_sent(worker):
    x = torch.zeros(3, device="npu")
    event = torch.npu.Event(interprocess=True)
    torch.npu.synchronize()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), Gate(stream):
        x.fill_(1)
        event.record()
        with torch.npu.stream(torch.npu.default_stream()):
            worker.ask(wait_for, event, x)
    assert worker.answer() == [2, 2, 2]
    with pytest.raises(ValueError, match="interprocess=True"):
        ForkingPickler.dumps(torch.npu.Event())


@two_devices
def test_every_device_has_memory_to_share(worker):
    x = torch.arange(3.0, device="npu:1")
    assert_is(worker.call(describe, x), x)


@cached
@pytest.mark.parametrize("is_waited_for", [True, False], ids=["joined", "zombie"])
def test_a_receiver_that_dies_has_let_go(is_waited_for):
    worker = Worker()
    gc.collect()
    torch.npu.ipc_collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(100, device="npu")
    worker.call(keep, "x", x)
    del x
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() > before
    os.kill(worker.process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    if is_waited_for:
        worker.process.join()
    torch.npu.ipc_collect()
    assert torch.npu.memory_allocated() == before
    worker.process.join()


# Within one process: a message whose sender no longer has the tensor is opened as in another process.


def message(x):
    return bytes(ForkingPickler.dumps(x))


def test_the_same_process_receives_its_own_storage():
    x = torch.ones(3, device="npu")
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(x)
    y = queue.get()
    assert y.data_ptr() == x.data_ptr()
    sent = message(x)
    address = x.data_ptr()
    del x, y
    z = pickle.loads(sent)
    assert z.tolist() == [1, 1, 1]
    assert z.data_ptr() != address


def test_the_thread_that_feeds_a_queue_waits_for_the_stream_of_the_memory():
    queue = torch.multiprocessing.get_context("spawn").Queue()
    stream = torch.npu.Stream()
    with torch.npu.stream(stream), Gate(stream):
        x = torch.full((1000,), 3.0, device="npu")
        queue.put(x)
        del x
    assert set(queue.get(timeout=60).tolist()) == {3}


def test_many_threads_send_one_tensor():
    x = torch.arange(100.0, device="npu")
    sent = []

    def send(tensor):
        sent.extend(message(tensor) for _ in range(20))

    threads = [threading.Thread(target=send, args=(x,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = x.tolist()
    del x
    assert len(sent) == 80
    first = pickle.loads(sent[0])
    assert all(pickle.loads(one).data_ptr() == first.data_ptr() for one in sent[1:])
    assert first.tolist() == expected


def test_a_message_is_received_once():
    sent = message(torch.ones(3, device="npu"))
    x = pickle.loads(sent)
    assert x.tolist() == pickle.loads(sent).tolist(), "it is the storage that is there already"
    del x
    with pytest.raises(RuntimeError, match="can be received once; send it again"):
        pickle.loads(sent)


def test_messages_leave_nothing_behind():
    def files():
        torch.npu.ipc_collect()
        return len(os.listdir("/proc/self/fd"))

    def once(elements):
        pickle.loads(message(torch.ones(elements, device="npu"))).add_(1)

    once(3)
    before = files()
    for elements in (3, 300, 3000, MIB) * 25:
        once(elements)
    assert files() == before


@cached
def test_sent_memory_is_collected_before_an_allocation_would_fail():
    x = torch.ones(30 * MIB, device="npu")
    sent = message(x)
    del x
    gc.collect()
    torch.npu.empty_cache()
    total = torch.npu.mem_get_info()[1]
    fraction = (torch.npu.memory_reserved() + 20 * MIB) / total
    torch.npu.set_per_process_memory_fraction(fraction)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(25 * MIB, dtype=torch.float32, device="npu")
        pickle.loads(sent)  # and is dropped
        torch.empty(25 * MIB, dtype=torch.float32, device="npu")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)


def test_the_functions_of_the_real_package_do_the_same():
    x = torch.arange(6.0, device="npu").view(2, 3)
    shared = x.untyped_storage()._share_npu_()
    assert shared[0] == 0
    del x
    y = reductions.rebuild_npu_tensor(
        torch.nn.Parameter, torch.Size([3, 2]), (1, 3), 0, torch.UntypedStorage, torch.float32, *shared[:4], True, *shared[4:]
    )
    assert isinstance(y, torch.nn.Parameter)
    assert y.requires_grad
    assert y.tolist() == [[0, 3], [1, 4], [2, 5]]
    event = torch.npu.Event(interprocess=True)
    assert reductions.rebuild_npu_event("npu:0", event.ipc_handle()).query()


def test_tensors_of_the_cpu_are_sent_as_before():
    x = torch.ones(3)
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(x)
    queue.get().fill_(2)
    assert x.tolist() == [2, 2, 2]


def test_uncached_memory_is_shared_too(python):
    done = python(
        """
        import pickle, torch
        from multiprocessing.reduction import ForkingPickler
        x = torch.arange(3.0, device="npu")
        sent = bytes(ForkingPickler.dumps(x))
        del x
        x = pickle.loads(sent)
        print(x.tolist())
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
    )
    assert done.stdout == "[0.0, 1.0, 2.0]\n", done.stderr
    assert not done.stderr


def test_a_sender_that_has_ended_is_named(python):
    done = python(
        """
        import torch
        from multiprocessing.reduction import ForkingPickler
        print(bytes(ForkingPickler.dumps(torch.ones(3, device="npu"))).hex())
        """
    )
    assert "this process ends while others have tensors on npu that it sent" in done.stderr
    with pytest.raises(RuntimeError, match=r"that sent a tensor on npu .*must be alive"):
        pickle.loads(bytes.fromhex(done.stdout.strip()))


def receive_when_the_sender_ends(connection, queue, ends):
    torch.ones(1, device="npu")
    connection.send("ready")
    ends.wait()
    print(queue.get().tolist(), connection.recv().tolist(), flush=True)


def test_a_sender_that_waits_for_its_children_at_its_end_is_not_warned(python):
    # multiprocessing waits for them, and sends what is in queues, after most other functions that run at exit.
    done = python(
        """
        import multiprocessing.util, sys, torch
        sys.path.insert(0, sys.argv[1])
        from test_multiprocessing import receive_when_the_sender_ends
        context = torch.multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        queue, ends = context.Queue(), context.Event()
        child = context.Process(target=receive_when_the_sender_ends, args=(there, queue, ends))
        child.start()
        here.recv()
        queue.put(torch.ones(2, device="npu"))
        here.send(torch.zeros(2, device="npu"))
        multiprocessing.util.Finalize(None, ends.set, exitpriority=1)
        """,
        os.path.dirname(__file__),
    )
    assert done.stdout == "[1.0, 1.0] [0.0, 0.0]\n", done.stderr
    assert not done.stderr


def test_a_child_of_fork_sends_and_receives_nothing(python):
    done = python(
        """
        import os, pickle, torch
        from multiprocessing.reduction import ForkingPickler
        x = torch.ones(3, device="npu")
        sent = bytes(ForkingPickler.dumps(x))
        if os.fork() == 0:
            for attempt in (lambda: ForkingPickler.dumps(x), lambda: pickle.loads(sent)):
                try:
                    attempt()
                except RuntimeError as error:
                    print(error)
            os._exit(0)
        os.wait()
        del x
        pickle.loads(sent)
        """
    )
    assert [line for line in done.stdout.splitlines() if "spawn" not in line] == [], done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert not done.stderr


def test_the_receiver_is_told_what_the_sender_cannot_be():
    x = pickle.loads(message(torch.ones(3, device="npu")))
    queue = torch.multiprocessing.get_context("spawn").Queue()
    queue.put(x)
    with pytest.raises(RuntimeError, match="Consider cloning before sending"):
        queue.get(timeout=60)
