"""Copies from and to pinned memory with non_blocking=True go on while the host and other streams work."""

import torch

from tests.held_stream import HeldStream

SIZE = 1 << 16


def recorded(stream=None):
    event = torch.npu.Event()
    event.record(stream or torch.npu.current_stream())
    return event


def test_the_host_goes_on_while_a_copy_waits_for_its_stream():
    host = torch.arange(float(SIZE)).pin_memory()
    with HeldStream():
        npu = host.to("npu", non_blocking=True)
        copied = recorded()
        assert not copied.query()
    assert copied.query()
    assert torch.equal(npu.cpu(), host)


def test_a_copy_to_pinned_memory_finishes_later():
    npu = torch.ones(SIZE, device="npu")
    host = torch.zeros(SIZE, pin_memory=True)
    with HeldStream():
        host.copy_(npu * 2, non_blocking=True)
        copied = recorded()
        assert not copied.query()
        assert host.sum().item() == 0
    assert copied.query()
    assert host.sum().item() == 2 * SIZE


def test_to_cpu_without_blocking_makes_pinned_memory():
    npu = torch.ones(SIZE, device="npu")
    with HeldStream():
        host = npu.to("cpu", non_blocking=True)
        assert host.is_pinned()
        assert not recorded().query()
    assert host.sum().item() == SIZE


def test_a_copy_overlaps_the_compute_of_another_stream():
    """A prefetcher: the next batch is copied during the step on the current batch."""
    side, host = torch.npu.Stream(), torch.arange(float(SIZE)).pin_memory()
    weight = torch.full((SIZE,), 3.0, device="npu")
    torch.npu.synchronize()
    with HeldStream():
        step = weight * 2
        computed = recorded()
        with torch.npu.stream(side):
            batch = host.to("npu", non_blocking=True)
            copied = recorded(side)
        copied.synchronize()
        assert not computed.query()
        torch.npu.current_stream().wait_stream(side)
        batch.record_stream(torch.npu.current_stream())
        result = batch + step
        assert not recorded().query()
    assert torch.equal(result.cpu(), host + 6)


def test_compute_overlaps_a_copy_that_waits():
    side, host = torch.npu.Stream(), torch.ones(SIZE).pin_memory()
    x = torch.ones(SIZE, device="npu")
    torch.npu.synchronize()
    with HeldStream(side):
        with torch.npu.stream(side):
            batch = host.to("npu", non_blocking=True)
            copied = recorded(side)
        assert (x + 1).sum().item() == 2 * SIZE  # waits for this stream alone
        assert not copied.query()
    assert batch.sum().item() == SIZE
