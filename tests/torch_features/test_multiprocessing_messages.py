"""Messages with tensors on npu, mostly sent and received in one process."""

import gc
import os
import pickle
import threading
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest
import torch
import torch.multiprocessing
from torch_npu.multiprocessing import reductions

from tests.held_stream import HeldStream
from tests.support import MIB, cached

# In one process, a message whose sender has dropped the tensor is opened as in another process.


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
    with torch.npu.stream(stream), HeldStream(stream):
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


def test_messages_leave_no_open_files():
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
def test_released_memory_of_messages_is_collected_before_out_of_memory():
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
        pickle.loads(sent)  # the result is dropped
        torch.empty(25 * MIB, dtype=torch.float32, device="npu")
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)


def test_the_functions_of_the_real_package_share_memory_too():
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
    assert "this process ends while other processes use, or have not yet received, tensors on npu that it sent" in done.stderr
    with pytest.raises(RuntimeError, match=r"that sent a tensor on npu .*must be alive"):
        pickle.loads(bytes.fromhex(done.stdout.strip()))


def test_a_sender_that_waits_for_its_children_at_its_end_is_not_warned(python):
    # multiprocessing joins children and flushes queues after most other functions that run at exit.
    done = python(
        """
        import multiprocessing.util, sys, torch
        sys.path.insert(0, sys.argv[1])
        from tests.torch_features.ipc_worker import receive_when_the_sender_ends
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
        Path(__file__).parents[2],
    )
    assert done.stdout == "[1.0, 1.0] [0.0, 0.0]\n", done.stderr
    assert not done.stderr


def test_a_forked_child_can_neither_send_nor_receive(python):
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


def test_a_send_error_is_raised_at_the_receiver():
    x = pickle.loads(message(torch.ones(3, device="npu")))
    queue = torch.multiprocessing.get_context("spawn").Queue()
    queue.put(x)
    with pytest.raises(RuntimeError, match="Consider cloning before sending"):
        queue.get(timeout=60)
