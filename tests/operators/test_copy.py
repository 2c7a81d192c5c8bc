"""Copies keep values between all devices, dtypes and layouts."""

import pytest
import torch

from tests.compare import assert_same
from tests.support import LAYOUTS, WRITABLE, pair, two_devices

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int32, torch.int64, torch.bool]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64], ids=str)
def test_to_the_device_and_back(layout, dtype):
    cpu, npu = pair(layout, dtype)
    assert torch.equal(npu.cpu(), cpu)
    assert torch.equal(cpu.to("npu").cpu(), cpu)
    assert cpu.to("npu").stride() == cpu.to("cpu", copy=True).stride()


@pytest.mark.parametrize("target", WRITABLE)
@pytest.mark.parametrize("source", [name for name in LAYOUTS if name != "channels_last"])
def test_between_layouts_in_all_directions(source, target):
    cpu_source, npu_source = pair(source)
    cpu_target, npu_target = pair(target, seed=1)
    if cpu_source.shape not in (cpu_target.shape, ()):
        pytest.skip("shapes differ")
    expected = cpu_target.clone().copy_(cpu_source)
    on_host = cpu_target.clone()
    assert torch.equal(npu_target.clone().copy_(npu_source).cpu(), expected)
    assert torch.equal(npu_target.copy_(cpu_source).cpu(), expected)
    assert torch.equal(on_host.copy_(npu_source), expected)
    cpu_target.copy_(npu_source)
    assert torch.equal(cpu_target, expected)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.parametrize("target", DTYPES, ids=str)
def test_between_dtypes(layout, source, target):
    cpu, npu = pair(layout, source)
    if target == torch.uint8 and source != torch.uint8:
        cpu, npu = cpu.abs() if source != torch.bool else cpu, npu.abs() if source != torch.bool else npu
    expected = cpu.to(target)
    assert torch.equal(npu.to(target).cpu(), expected)
    assert torch.equal(torch.empty_like(expected, device="npu").copy_(cpu).cpu(), expected)
    assert torch.equal(torch.empty_like(expected).copy_(npu), expected)


@pytest.mark.parametrize("layout", WRITABLE)
def test_a_smaller_tensor_is_broadcast(layout):
    cpu, npu = pair(layout)
    if cpu.dim() == 0 or cpu.numel() == 0:
        pytest.skip("nothing to broadcast over")
    row = torch.arange(float(cpu.shape[-1]))
    cpu.copy_(row)
    for source in (row, row.npu()):
        npu.zero_().copy_(source)
        assert torch.equal(npu.cpu(), cpu)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(RuntimeError, match="must match"):
        torch.zeros(2, device="npu").copy_(torch.zeros(3, device="npu"))


def test_conjugates_and_negations_are_resolved():
    cpu = torch.tensor([1 + 2j, 3 - 1j])
    npu = cpu.npu()
    for change in (torch.conj, lambda x: torch._neg_view(x), lambda x: x.conj().imag):
        assert torch.equal(change(npu).cpu(), change(cpu))
        assert torch.equal(torch.zeros_like(change(cpu)).npu().copy_(change(npu)).cpu(), change(cpu).resolve_conj())
    target = torch.zeros(2, dtype=torch.complex64)
    target.conj().copy_(npu)
    assert torch.equal(target, cpu.conj().resolve_conj())


def test_pinned_memory_is_copied_without_waiting():
    host = torch.arange(1024.0).pin_memory()
    assert host.is_pinned()
    assert not torch.arange(4).is_pinned()
    npu = host.to("npu", non_blocking=True)
    back = torch.empty(1024, pin_memory=True)
    back.copy_(npu, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, host)


def test_pinned_memory_lives_until_its_copy_is_done():
    for value in range(20):
        host = torch.full((1 << 16,), float(value)).pin_memory()
        npu = host.to("npu", non_blocking=True)
        del host
        torch.full((1 << 16,), -1.0).pin_memory()
        assert npu[0].item() == npu[-1].item() == value


def test_unpinned_memory_may_be_reused_at_once():
    host = torch.ones(1 << 16)
    npu = host.to("npu", non_blocking=True)
    host.zero_()
    assert npu.sum().item() == 1 << 16


@two_devices
@pytest.mark.parametrize("layout", LAYOUTS)
def test_between_devices(layout):
    cpu, npu = pair(layout)
    there = npu.to("npu:1")
    assert there.device.index == 1
    assert torch.equal(there.cpu(), cpu)
    assert torch.equal(there.to("npu:0").cpu(), cpu)
    assert torch.equal(torch.empty_like(cpu, dtype=torch.float64, device="npu:1").copy_(npu).cpu(), cpu.double())
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_contiguous_and_memory_formats(layout):
    cpu, npu = pair(layout)
    assert_same(npu.contiguous(), cpu.contiguous())
    assert_same(npu.clone(memory_format=torch.contiguous_format), cpu.clone(memory_format=torch.contiguous_format))
    if cpu.dim() == 4:
        assert npu.is_contiguous(memory_format=torch.channels_last)
