"""A capture whose graph is deleted or whose thread ends leaves the stream usable."""

import gc
import threading
import time

import pytest
import torch

from tests.support import cached

pytestmark = cached


def in_a_thread(function):
    """Calls function() in a new thread and waits for its end. Returns the result or the exception."""
    outcome = []

    def call():
        try:
            outcome.append(function())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return outcome[0]


def in_a_thread_that_ends_in_a_capture(function):
    """As in_a_thread, and waits until the thread's capture has ended, which may happen shortly after join()."""
    in_a_thread(function)
    while torch.npu.graphs._C._npu_captures_exist():
        time.sleep(0.001)


def assert_works(stream):
    """Operators run, waits return, and the next capture works."""
    with torch.npu.stream(stream):
        assert (torch.ones(4, device="npu") + 1).tolist() == [2] * 4
        stream.synchronize()
        x, graph = torch.ones(4, device="npu"), torch.npu.NPUGraph()
        graph.capture_begin()
        x += 1
        graph.capture_end()
        graph.replay()
        assert x.tolist() == [2] * 4
    torch.npu.synchronize()
    assert not torch.npu.graphs._C._npu_captures_exist()


@pytest.fixture
def stream():
    torch.npu.synchronize()
    stream = torch.npu.Stream()
    yield stream
    assert_works(stream)


@pytest.fixture
def x():
    return torch.ones(4, device="npu")


@pytest.mark.parametrize("function", ["reset", "capture_end"])
def test_another_thread_is_refused_and_the_capture_goes_on(stream, x, function):
    with torch.npu.stream(stream):
        graph = torch.npu.NPUGraph()
        graph.capture_begin()
        y = x * 2

        def end():
            with torch.npu.stream(stream):
                getattr(graph, function)()

        refusal = in_a_thread(end)
        assert "captured by another thread" in str(refusal)
        y += 1
        graph.capture_end()
        graph.replay()
        assert y.tolist() == [3] * 4


@pytest.mark.parametrize("function", ["reset", "capture_end"])
def test_a_relaxed_capture_is_ended_by_any_thread(stream, x, function):
    with torch.npu.stream(stream):
        graph = torch.npu.NPUGraph()
        graph.capture_begin(capture_error_mode="relaxed")
        x += 1

        def end():
            with torch.npu.stream(stream):
                getattr(graph, function)()

        assert in_a_thread(end) is None
        if function == "capture_end":
            graph.replay()
        assert x.tolist() == [2 if function == "capture_end" else 1] * 4


AFTERWARDS = {
    "wait": lambda stream, x: stream.synchronize(),
    "wait for the device": lambda stream, x: torch.npu.synchronize(),
    "query": lambda stream, x: stream.query(),
    "allocate": lambda stream, x: torch.empty(4, device="npu"),
    "copy": lambda stream, x: x.tolist(),
    "capture": lambda stream, x: torch.npu.NPUGraph().capture_begin(),
    "empty_cache": lambda stream, x: torch.npu.empty_cache(),
    "ask": lambda stream, x: torch.npu.is_current_stream_capturing(),
}


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
@pytest.mark.parametrize("call", AFTERWARDS)
def test_deleting_a_graph_in_another_thread_ends_its_capture(stream, x, call, mode):
    holder = [torch.npu.NPUGraph()]
    with torch.npu.stream(stream):
        holder[0].capture_begin(capture_error_mode=mode)
        y = x * 2
        in_a_thread(holder.clear)
        AFTERWARDS[call](stream, x)
    del y


def test_memory_of_a_capture_that_another_thread_deleted_is_released(stream, x):
    torch.npu.empty_cache()
    reserved = torch.npu.memory_reserved()
    holder = [torch.npu.NPUGraph()]
    with torch.npu.stream(stream):
        holder[0].capture_begin()
        y = torch.ones(8 << 20, device="npu")
        in_a_thread(holder.clear)
    del y
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved


def test_a_graph_that_is_collected_in_its_capture_ends_it(stream, x):
    class Cycle:
        pass

    cycle = Cycle()
    cycle.itself, cycle.graph = cycle, torch.npu.NPUGraph()
    with torch.npu.stream(stream):
        cycle.graph.capture_begin()
        y = x * 2
        del cycle
        gc.collect()
        assert not torch.npu.is_current_stream_capturing()
    del y


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_ends_the_capture_and_the_graph_can_be_used_again(stream, x, error):
    graph = torch.npu.NPUGraph()
    with pytest.raises(error), torch.npu.graph(graph, stream=stream):
        x += 1
        raise error
    with torch.npu.graph(graph, stream=stream):
        x += 1
    graph.replay()
    assert x.tolist() == [2] * 4


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_capture_ends_with_its_thread(stream, x, mode):
    graph = torch.npu.NPUGraph()

    def begin():
        with torch.npu.stream(stream):
            graph.capture_begin(capture_error_mode=mode)
            x.add_(1)

    in_a_thread_that_ends_in_a_capture(begin)
    with torch.npu.stream(stream):
        with pytest.raises(RuntimeError, match="thread that began the capture has ended"):
            graph.capture_end()
        graph.capture_begin()
        x += 2
        graph.capture_end()
        graph.replay()
        assert x.tolist() == [3] * 4


@pytest.mark.parametrize("how", ["reset", "del"])
def test_a_graph_whose_thread_ended_in_the_capture_can_be_deleted(stream, how):
    torch.npu.empty_cache()
    reserved = torch.npu.memory_reserved()
    holder = [torch.npu.NPUGraph()]

    def begin():
        with torch.npu.stream(stream):
            holder[0].capture_begin()
            torch.ones(8 << 20, device="npu")

    in_a_thread_that_ends_in_a_capture(begin)
    if how == "reset":
        holder[0].reset()
    else:
        holder.clear()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved


def test_a_thread_that_ends_in_a_capture_of_a_deleted_graph_leaves_no_capture(stream):
    def begin():
        holder = [torch.npu.NPUGraph()]
        with torch.npu.stream(stream):
            holder[0].capture_begin()
            in_a_thread(holder.clear)

    in_a_thread_that_ends_in_a_capture(begin)
    torch.npu.synchronize()
