"""Memory is released to the device while tasks fail, and while other threads and processes use it."""

import sys
import threading

import pytest
import torch
from torch_npu import softnpu

from tests.held_stream import HeldStream
from tests.support import MIB, cached

SIZE = 4 * MIB  # elements: a segment of its own


@cached
@pytest.mark.usefixtures("empty_device")
def test_a_failed_task_is_raised_before_memory_is_released():
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
def test_a_failed_task_found_by_a_destructor_is_raised_by_the_next_wait():
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
def test_a_capture_can_begin_while_another_thread_releases_memory():
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
        torch.npu._sleep(100_000_000)
        y = x * 1.0
    del x
    replies.put((float(y.min()), float(y.max())))


def drop_while_another_thread_holds_the_stream(requests, replies):
    x, held, about_to_drop = requests.get(), HeldStream(), threading.Event()

    def release():
        about_to_drop.wait()
        held.release()

    opener = threading.Thread(target=release)
    opener.start()
    y = x * 1.0
    sys.setswitchinterval(1000)  # the other thread runs when this thread releases Python's global lock
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


def test_pages_that_another_thread_releases_are_not_extended(child):
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
