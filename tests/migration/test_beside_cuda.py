"""npu and a CUDA device work in one process. Skipped if no CUDA device works."""

import io
import subprocess
import sys

import pytest
import torch
import torch_npu  # noqa: F401
from torch import nn
from torch_npu.contrib import transfer_to_npu

transfer_to_npu.undo()
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture
def x():
    return torch.arange(6.0, device="cuda").view(2, 3)


def test_import_torch_keeps_cuda_as_the_accelerator():
    program = "import torch; print(hasattr(torch, 'npu'), torch.accelerator.current_accelerator())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.stdout == "False cuda\n", done.stderr


def test_copies_go_through_the_host(x):
    for dtype in (torch.float32, torch.float16, torch.int64):
        for source in (x, x.t(), x[:, 1:], x.cpu().pin_memory().to("cuda", non_blocking=True)):
            there = source.to("npu", dtype)
            assert there.is_npu and torch.equal(there.cpu(), source.cpu().to(dtype))
            back = there.to("cuda", torch.float32, non_blocking=True)
            assert back.is_cuda and torch.equal(back, source)
    y = torch.zeros(3, 2, device="npu")
    assert torch.equal(y.t().copy_(x).cpu(), x.cpu()) and torch.equal(x.zero_().copy_(y.t()).cpu(), y.t().cpu())
    assert nn.Linear(3, 2).to("cuda").to("npu").weight.is_npu


@pytest.mark.parametrize("number", [False, True])
def test_operands_of_both_are_refused(x, number):
    other = torch.tensor(2.0, device="npu") if number else x.npu()
    for call in (
        lambda: x + other,
        lambda: other + x,
        lambda: torch.cat([x, other.expand(2, 3)]),
        lambda: x[other.expand(2, 3) > 9],
        lambda: x @ other.expand(2, 3).t(),
        lambda: torch._foreach_add([x], [other]),
    ):
        with pytest.raises(RuntimeError, match=r"npu:0|cuda:0"):
            call()


@pytest.mark.parametrize("device", ["cuda", "npu"])
def test_npu_and_cuda_each_compute_from_pinned_memory(device):
    net = nn.Linear(3, 2).to(device)
    inputs = torch.ones(4, 3).pin_memory().to(device, non_blocking=True)
    with torch.autocast(device, dtype=torch.bfloat16):
        result = net(inputs)
    assert result.device.type == device and result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float().cpu(), net.cpu()(torch.ones(4, 3)), rtol=2e-2, atol=2e-2)


def test_npu_is_the_accelerator_and_is_differentiated(x):
    net = nn.Linear(3, 2).npu()
    net(x.npu()).sum().backward()
    assert torch.accelerator.current_accelerator().type == "npu" and torch.equal(
        net.weight.grad.cpu(), x.cpu().sum(0).expand(2, 3)
    )
    with pytest.raises(RuntimeError):  # torch runs backward on one kind of accelerator per process
        nn.Linear(3, 2).cuda()(x).sum().backward()


def test_each_has_its_streams_and_memory(x):
    assert type(torch.cuda.current_stream()) is torch.cuda.Stream and torch.cuda.memory_allocated() > 0
    before = torch.npu.memory_allocated()
    y = x.npu()
    assert torch.npu.memory_allocated() > before
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side and torch.npu.current_stream() == torch.npu.default_stream()
    assert torch.equal(y.cpu(), x.cpu())


def test_a_checkpoint_of_cuda_is_loaded_on_either(x):
    for location, device in ((None, "cuda:0"), ("npu", "npu:0"), ({"cuda:0": "npu:1"}, "npu:1"), ("cpu", "cpu")):
        file = io.BytesIO()
        torch.save({"x": x}, file)
        file.seek(0)
        loaded = torch.load(file, map_location=location)["x"]
        assert str(loaded.device) == device and torch.equal(loaded.cpu(), x.cpu())


def test_a_checkpoint_of_npu_is_loaded_on_cuda(x):
    file = io.BytesIO()
    torch.save(x.npu(), file)
    file.seek(0)
    assert torch.equal(torch.load(file, map_location="cuda"), x)


def test_cuda_means_npu_until_undo(x, caplog):
    with transfer_to_npu.scope():
        assert "CUDA device of this machine cannot be reached meanwhile" in caplog.text
        assert str(torch.ones(2, device="cuda").device) == "npu:0" and torch.cuda.get_device_name() == torch.npu.get_device_name()
    assert torch.ones(2, device="cuda").device.type == "cuda" != torch.ones(2, device="npu").device.type
    assert torch.cuda.get_device_name() != torch.npu.get_device_name() and torch.equal(x + 1, x.add(1))
