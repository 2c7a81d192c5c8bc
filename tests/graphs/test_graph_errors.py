"""Calls that a capture refuses, failures in captures and replays, and the memory that a graph keeps."""

import gc

import pytest
import torch
from torch_npu import softnpu

from tests.graphs.capturing import assert_replayed, capture
from tests.support import cached, two_devices

pytestmark = cached


WAITS = {
    "item": (lambda x, event: x.sum().item(), "_local_scalar_dense.*captured"),
    "if": (lambda x, event: bool(x[0] > 0), "captured"),
    "cpu": (lambda x, event: x.cpu(), "copy_.*captured"),
    "nonzero": (lambda x, event: x.nonzero(), "captured"),
    "synchronize": (lambda x, event: torch.npu.synchronize(), "captured"),
    "stream": (lambda x, event: torch.npu.current_stream().synchronize(), "captured"),
    "query": (lambda x, event: torch.npu.current_stream().query(), "captured"),
    "event": (lambda x, event: event.synchronize(), "captured"),
    "tensor": (lambda x, event: torch.ones(3).npu(), "captured"),
}


@pytest.mark.parametrize("name", WAITS)
def test_a_call_that_waits_for_the_device_is_refused_in_a_capture(name):
    call, words = WAITS[name]
    x = torch.ones(4, device="npu")
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match=words), torch.npu.graph(graph):
        y = x + 1
        event = torch.npu.Event()
        event.record()
        call(y, event)
    assert not torch.npu.is_current_stream_capturing()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()
    assert_replayed(x + 1, torch.full((4,), 2.0))
    with torch.npu.graph(graph):
        y = x * 5
    graph.replay()
    assert_replayed(y, torch.full((4,), 5.0))


def test_a_stream_that_is_not_joined_fails_the_capture():
    x = torch.ones(4, device="npu")
    side = torch.npu.Stream()
    with pytest.raises(RuntimeError, match="does not wait for"), torch.npu.graph(torch.npu.NPUGraph()):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x + 1
    with torch.npu.stream(side):
        assert_replayed(x + 1, torch.full((4,), 2.0))


def test_exceptions_of_the_program_end_the_capture():
    before = torch.npu.current_stream()
    with pytest.raises(ZeroDivisionError), torch.npu.graph(torch.npu.NPUGraph()):
        torch.ones(4, device="npu").add_(1 // 0)
    assert torch.npu.current_stream() == before
    torch.npu.synchronize()


def test_running_out_of_memory_in_a_capture_is_an_error_like_any_other():
    total = torch.npu.mem_get_info()[1]
    with pytest.raises(torch.npu.OutOfMemoryError), torch.npu.graph(torch.npu.NPUGraph()):
        torch.empty(total + 1, dtype=torch.uint8, device="npu")
    assert_replayed(torch.ones(2, device="npu") + 1, torch.full((2,), 2.0))


def test_memory_belongs_to_the_graph_until_it_is_deleted():
    gc.collect()
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    x = torch.ones(1 << 20, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = (x + 1) * (x + 2)
    kept = torch.npu.memory_reserved()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == kept, "the pool of a live graph was released"
    other = [torch.zeros(1 << 20, device="npu") for _ in range(8)]
    graph.replay()
    assert_replayed(y, torch.full((1 << 20,), 6.0))
    assert all(bool((each == 0).all()) for each in other), "memory of the graph was given to others"
    del graph, y, x, other
    gc.collect()
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() <= before


@two_devices
def test_memory_of_another_device_belongs_to_the_graph_too():
    x, stream = torch.ones(1000, device="npu:1"), torch.npu.Stream(1)
    graph = torch.npu.NPUGraph()
    torch.npu.synchronize(1)
    with torch.npu.graph(graph):
        first = torch.npu.current_stream()
        stream.wait_stream(first)
        with torch.npu.stream(stream):
            y = (x + 1) * (x + 2)
        first.wait_stream(stream)
    with torch.npu.stream(stream):
        other = [torch.zeros(1000, device="npu:1") for _ in range(8)]
    torch.npu.synchronize(1)
    graph.replay()
    torch.npu.synchronize()
    assert_replayed(y, torch.full((1000,), 6.0))
    assert all(bool((each == 0).all()) for each in other), "memory of the graph was given to others"


def test_memory_used_by_other_streams_is_kept_until_the_capture_is_over():
    side = torch.npu.Stream()
    x = torch.ones(1 << 16, device="npu")
    x.record_stream(side)
    with torch.npu.graph(torch.npu.NPUGraph()):
        y = torch.zeros(4, device="npu")
        del x
    allocated = torch.npu.memory_allocated()
    torch.npu.synchronize()
    torch.empty(1, device="npu")
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated() <= allocated
    del y


def test_an_operator_that_fails_in_a_replay_is_named_and_the_next_replay_runs():
    x = torch.ones(4, device="npu")
    graph, y = capture(lambda: x.exp().sqrt())
    torch.npu.synchronize()
    with softnpu.faults("launch:2"):
        graph.replay()
        with pytest.raises(RuntimeError, match="aclnnSqrt"):
            torch.npu.synchronize()
        graph.replay()
        assert_replayed(y, torch.ones(4).exp().sqrt())


def test_wrong_use_of_a_graph_is_explained():
    graph = torch.npu.NPUGraph()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()
    with pytest.raises(RuntimeError, match="no pool"):
        graph.pool()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        graph.capture_end()
    with pytest.raises(RuntimeError, match="default stream"):
        graph.capture_begin()
    with pytest.raises(ValueError, match="'global', 'thread_local' or 'relaxed'"), torch.npu.graph(graph, capture_error_mode="x"):
        pass
    other, _ = capture(lambda: torch.ones(1, device="npu"))
    with torch.npu.graph(graph), pytest.raises(RuntimeError, match="being captured"):
        other.replay()
    with pytest.raises(RuntimeError, match="already"), torch.npu.graph(graph):
        pass
    with pytest.raises(RuntimeError, match="auto_dispatch_capture"):
        graph.update([{}])
    graph.reset()
    with pytest.raises(RuntimeError, match="holds no graph"):
        graph.replay()


def test_a_graph_needs_memory_that_is_cached(child):
    finished = child(
        """
        import torch
        try:
            with torch.npu.graph(torch.npu.NPUGraph()):
                pass
        except RuntimeError as error:
            print(error)
        """,
        PYTORCH_NO_NPU_MEMORY_CACHING="1",
    )
    assert "needs the caching allocator" in finished.stdout, finished.stderr


def test_a_program_can_end_during_a_replay_and_a_capture(child):
    finished = child(
        """
        import torch
        x = torch.ones(1 << 20, device="npu")
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = x.exp().sum() + torch.rand(3, device="npu")
        for _ in range(20):
            graph.replay()
        unfinished = torch.npu.graph(torch.npu.NPUGraph())
        unfinished.__enter__()
        z = x + 1
        """
    )
    assert (finished.returncode, finished.stderr) == (0, "")
