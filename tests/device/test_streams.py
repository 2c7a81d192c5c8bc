"""Streams keep order within themselves, events between them."""

import ctypes
import pickle
import subprocess
import sys
import threading
import time

import pytest
import torch

from tests.held_stream import HeldStream
from tests.support import two_devices


def test_the_default_stream_is_current_until_another_is_chosen():
    assert torch.npu.current_stream() == torch.npu.default_stream()
    side = torch.npu.Stream()
    assert side != torch.npu.default_stream()
    with torch.npu.stream(side):
        assert torch.npu.current_stream() == side
        assert torch.accelerator.current_stream() == side
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == side
    assert torch.npu.current_stream() == torch.npu.default_stream()
    torch.npu.set_stream(side)
    assert torch.npu.current_stream() == side
    torch.npu.set_stream(torch.npu.default_stream())


@pytest.mark.parametrize("what", ["x", 3, torch.device("cpu")])
def test_an_argument_that_is_not_a_stream_is_named(what):
    for call in (torch.npu.Event().record, torch.npu.Event().wait, torch.npu.ExternalEvent().record):
        with pytest.raises(TypeError, match=r"stream must be a torch\.npu\.Stream, .* but got"):
            call(what)


def test_a_stream_is_a_torch_stream():
    stream = torch.npu.Stream(priority=-1)
    assert isinstance(stream, torch.Stream)
    assert stream.device == torch.device("npu", 0)
    assert stream.priority < torch.npu.Stream().priority
    assert stream.npu_stream != torch.npu.Stream().npu_stream
    assert hash(stream) == hash(torch.npu.Stream(stream_id=stream.stream_id, device_index=0, device_type=stream.device_type))
    assert "device=npu:0" in repr(stream)
    with stream:
        assert torch.npu.current_stream() == stream
    with torch.Stream(device="npu") as plain:
        assert torch.npu.current_stream() == plain


def test_an_external_stream_is_used_and_not_owned():
    stream = torch.npu.Stream()
    external = torch.npu.ExternalStream(stream.npu_stream)
    assert external.npu_stream == stream.npu_stream
    with torch.npu.stream(external):
        assert torch.ones(3, device="npu").sum().item() == 3


def test_the_current_stream_belongs_to_the_thread():
    side = torch.npu.Stream()
    seen = []
    with torch.npu.stream(side):
        worker = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
        worker.start()
        worker.join()
    assert seen == [torch.npu.default_stream()]


def test_waiting_orders_streams():
    side = torch.npu.Stream()
    x = torch.zeros(1 << 20, device="npu")
    for step in range(30):
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x.add_(1)
        torch.npu.current_stream().wait_event(side.record_event())
        x.mul_(2)
        x.sub_(step + 2)
        x.clamp_(0, 3)
    x.record_stream(side)
    expected = torch.zeros(())
    for step in range(30):
        expected = ((expected + 1) * 2 - (step + 2)).clamp(0, 3)
    assert x[0].item() == x[-1].item() == expected.item()


def test_a_stream_is_done_after_synchronize():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        x = torch.ones(1 << 20, device="npu")
        for _ in range(10):
            x = x + 1
    stream.synchronize()
    assert stream.query()
    assert x[0].item() == 11


def test_events_measure_time():
    begin = time.perf_counter()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(1 << 20, device="npu")
    for _ in range(10):
        x = x + 1
    end.record()
    end.synchronize()
    assert end.query()
    assert 0 < start.elapsed_time(end) <= 1000 * (time.perf_counter() - begin)


def test_the_time_is_known_once_an_event_was_waited_for():
    for _ in range(200):
        start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        start.record()
        torch.ones(1 << 16, device="npu").add_(1)
        end.record()
        end.synchronize()
        assert start.elapsed_time(end) > 0


def test_an_event_without_timing_does_not_measure():
    first, second = torch.npu.Event(), torch.npu.Event()
    first.record()
    second.record()
    second.synchronize()
    with pytest.raises(ValueError, match="enable_timing=True"):
        first.elapsed_time(second)


def test_an_event_that_was_never_recorded_is_done():
    event = torch.npu.Event()
    assert isinstance(event, torch.Event)
    assert event.query()
    event.synchronize()
    event.wait()


def test_at_most_32_streams_of_a_priority_are_created():
    streams = [torch.npu.Stream() for _ in range(100)]
    assert len({stream.npu_stream for stream in streams}) <= 32


@two_devices
def test_a_stream_of_another_device_brings_its_device():
    there = torch.npu.Stream(device="npu:1")
    assert there.device.index == 1
    with torch.npu.stream(there):
        assert torch.npu.current_device() == 1
        assert torch.ones(2, device="npu").device.index == 1
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream("npu:1") == torch.npu.default_stream(1)


def test_a_stream_context_restores_stream_and_device():
    stream = torch.npu.Stream("npu:1")
    before = torch.npu.current_stream(), torch.npu.current_stream(1)
    context = torch.npu.StreamContext(stream)
    assert torch.npu.current_stream(1) == before[1]
    with pytest.raises(KeyError), context:
        assert torch.npu.current_stream() == stream and torch.ones(1, device="npu").device.index == 1
        raise KeyError
    assert torch.npu.current_device() == 0 and (torch.npu.current_stream(), torch.npu.current_stream(1)) == before
    with torch.npu.StreamContext(None):
        assert torch.npu.current_stream() == before[0]


def test_threads_work_side_by_side():
    results = {}

    def work(number):
        with torch.npu.stream(torch.npu.Stream()):
            x = torch.full((1000,), float(number), device="npu")
            for _ in range(50):
                x = x + 1
            results[number] = x.sum().item()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: 1000.0 * (number + 50) for number in range(4)}


def test_stream_priorities_are_limited_to_their_range():
    least, greatest = torch.npu.Stream.priority_range()
    assert torch.npu.Stream(priority=greatest).priority == greatest
    assert torch.npu.Stream(priority=least).priority == least
    assert torch.npu.Stream(priority=-7).priority == greatest


def test_streams_and_events_are_equal_by_what_they_are():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        again = torch.npu.current_stream()
    assert again == stream
    assert again is not stream
    assert len({stream, again, torch.npu.default_stream()}) == 2
    assert stream != "a stream"
    assert stream._as_parameter_.value == stream.npu_stream


@pytest.mark.parametrize("make", [torch.npu.Stream, torch.npu.SyncLaunchStream, torch.npu.Event])
def test_streams_and_events_cannot_be_pickled(make):
    with pytest.raises((TypeError, RuntimeError), match=r"pickle|serializ"):
        pickle.dumps(make())


def test_a_sync_launch_stream_is_a_stream():
    stream = torch.npu.SyncLaunchStream(priority=-1)
    assert isinstance(stream, torch.npu.Stream)
    assert "SyncLaunchStream" in repr(stream)
    with torch.npu.stream(stream):
        x = torch.ones(1000, device="npu").sum()
    torch.npu.current_stream().wait_stream(stream)
    assert x.item() == 1000
    assert stream.query()


def test_a_stream_can_be_marked_for_data_preprocessing():
    torch.npu.Stream().set_data_preprocess_stream(True)
    with pytest.raises(TypeError, match="True or False"):
        torch.npu.Stream().set_data_preprocess_stream(1)


def test_an_external_stream_is_checked():
    assert torch.npu.get_stream_from_external(torch.npu.Stream().npu_stream, "npu:0").device.index == 0
    with pytest.raises(TypeError, match="stream_ptr must be an int"):
        torch.npu.ExternalStream(None)
    with pytest.raises(TypeError, match="colour"):
        torch.npu.ExternalStream(0, colour=1)


def test_streams_of_the_runtime_are_made_and_used():
    runtime = torch.npu.npurt()
    place = ctypes.c_void_p()
    assert runtime.npuStreamCreate(ctypes.addressof(place)) == 0
    stream = torch.npu.ExternalStream(place.value)
    with torch.npu.stream(stream):
        x = torch.ones(3, device="npu") + 1
    stream.synchronize()
    assert x.tolist() == [2, 2, 2]
    assert runtime.npuStreamDestroy(place.value) == 0
    del x
    torch.npu.empty_cache()  # the cache holds memory of that stream
    assert runtime.npuStreamCreate(0) != 0


def test_host_memory_is_registered():
    runtime = torch.npu.npurt()
    tensor = torch.empty(3 << 12, dtype=torch.uint8)
    begin = (tensor.data_ptr() + 4095) // 4096 * 4096
    assert runtime.npuHostRegister(begin, 4096, 0x10000000) == 0
    assert runtime.npuHostUnregister(begin) == 0
    assert runtime.npuHostUnregister(begin) != 0


def test_recorded_times_are_ordered():
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.npu._sleep(2_000_000)
    end.record()
    end.synchronize()
    assert end.recorded_time() - start.recorded_time() >= 2000
    assert start.elapsed_time(end) >= 2
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.npu.Event().recorded_time()
    with pytest.raises(RuntimeError, match="must be recorded"):
        torch.npu.Event(enable_timing=True).recorded_time()


def test_a_stream_that_sleeps_is_busy():
    stream, seen = torch.npu.Stream(), set()
    for milliseconds in (50, 500, 5000):  # the sleep may end before this thread checks it
        with torch.npu.stream(stream):
            torch.npu._sleep(milliseconds * 1_000_000)
        event = stream.record_event()
        while not event.query():
            seen.add((torch.npu.utilization(), stream.query()))
        assert stream.query()
        if (100, False) in seen:
            return
    pytest.fail(f"utilization and query() were {seen}")


SHARED = """
import sys, torch
event = torch.npu.Event.from_ipc_handle(0, bytes.fromhex(sys.argv[1]))
print(event.query(), flush=True)
sys.stdin.readline()
print(event.query(), flush=True)
event.synchronize()
print(event.query(), flush=True)
"""


def test_another_process_waits_for_an_event():
    event, stream = torch.npu.Event(interprocess=True), torch.npu.Stream()
    handle = event.ipc_handle()
    assert isinstance(handle, bytes)
    with subprocess.Popen(
        [sys.executable, "-c", SHARED, handle.hex()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "True\n"
        with HeldStream(stream):
            event.record(stream)
            assert not event.query()
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "False\n"
        assert other.stdout.readline() == "True\n"
        assert stream.query()
        assert event.query()
    event.synchronize()
    torch.npu.current_stream().wait_event(event)


def test_wrong_calls_for_interprocess_events_are_refused():
    with pytest.raises(ValueError, match="interprocess=True"):
        torch.npu.Event().ipc_handle()
    with pytest.raises(ValueError, match="one of enable_timing and interprocess"):
        torch.npu.Event(enable_timing=True, interprocess=True)
    with pytest.raises(RuntimeError, match="64 bytes"):
        torch.npu.Event.from_ipc_handle(0, b"short")


def test_an_external_event_orders_streams_until_it_is_reset():
    event, busy, side = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(1, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(busy):
        torch.npu._sleep(50_000_000)
        x.add_(5)
        event.record()
    event.wait(side)
    with torch.npu.stream(side):
        y = x + 1
    side.synchronize()
    assert y.item() == 6
    with HeldStream(busy):
        event.record(busy)
        event.reset(busy)
        event.wait(side)
        side.synchronize()
        assert not busy.query()


def test_marks_and_ranges_are_checked():
    mstx = torch.npu.mstx
    assert [mstx.range_push("a"), mstx.range_push("b"), mstx.range_push("c", domain="other")] == [0, 1, 0]
    assert [mstx.range_pop(), mstx.range_pop(), mstx.range_pop("other")] == [1, 0, 0]
    with pytest.warns(UserWarning, match="no open range"):
        assert mstx.range_pop() == -1
    first, second = mstx.range_start("a"), mstx.range_start("b", stream=torch.npu.current_stream())
    mstx.range_end(first)
    mstx.range_end(second)
    with pytest.warns(UserWarning, match="give what range_start returned"):
        mstx.range_end(second)
    with pytest.warns(UserWarning, match="the message must be a text"):
        mstx.mark("")
    with pytest.warns(UserWarning, match=r"a torch.npu.Stream or None"):
        assert mstx.range_start("x", stream=3) == 0


def test_ranges_are_decorators_and_contexts():
    @torch.npu.mstx.mstx_range("call")
    def double(x):
        return 2 * x

    @torch.npu.mstx.annotate()
    def triple(x):
        return 3 * x

    with torch.npu.mstx.annotate("both"):
        assert (double(2), triple(2)) == (4, 6)
    assert triple.__name__ == "triple"


def test_a_stopped_device_starts_again():
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        x = torch.ones(2, device="npu")
        torch.npu._sleep(100_000_000)
        x.add_(1)
    torch.npu.stop_device(0)
    torch.npu.restart_device(0)
    assert torch.ones(3, device="npu").sum().item() == 3
    with torch.npu.stream(stream):
        assert torch.ones(3, device="npu").sum().item() == 3
