"""Streams keep order within themselves, events between them."""

import threading

import pytest
import torch


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
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = torch.ones(1 << 20, device="npu")
    for _ in range(10):
        x = x + 1
    end.record()
    end.synchronize()
    assert end.query()
    assert 0 < start.elapsed_time(end) < 60_000


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


def test_pools_have_a_limit_and_streams_come_round():
    streams = [torch.npu.Stream() for _ in range(100)]
    assert len({stream.npu_stream for stream in streams}) <= 32


@pytest.mark.skipif(torch.npu.device_count() < 2, reason="needs two devices")
def test_a_stream_of_another_device_brings_its_device():
    there = torch.npu.Stream(device="npu:1")
    assert there.device.index == 1
    with torch.npu.stream(there):
        assert torch.npu.current_device() == 1
        assert torch.ones(2, device="npu").device.index == 1
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream("npu:1") == torch.npu.default_stream(1)


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
