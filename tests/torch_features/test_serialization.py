"""Tensors and models on npu are saved, and loaded on any device."""

import io
import pickle

import pytest
import torch

from tests.support import LAYOUTS, pair


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_a_tensor_is_loaded_to_its_device_or_to_map_location(layout, dtype):
    cpu, npu = pair(layout, dtype)
    back = torch.load(saved(npu))
    assert back.device == npu.device
    assert back.stride() == npu.stride()
    assert torch.equal(back.cpu(), cpu)
    assert torch.equal(torch.load(saved(npu), map_location="cpu"), cpu)
    assert torch.load(saved(cpu), map_location="npu").is_npu
    assert torch.equal(torch.load(saved(cpu), map_location=torch.device("npu:0")).cpu(), cpu)


def test_tensors_share_memory_after_loading():
    x = torch.arange(6.0, device="npu")
    first, second = torch.load(saved((x, x[2:])))
    first[2] = 100
    assert second[0].item() == 100


def test_loading_without_a_device_is_explained(child, tmp_path):
    torch.save(torch.ones(2, device="npu"), tmp_path / "x.pt")
    done = child("import sys, torch; torch.load(sys.argv[1])", tmp_path / "x.pt", ASCEND_RT_VISIBLE_DEVICES="")
    assert "map_location" in done.stderr
    done = child(
        "import sys, torch; print(torch.load(sys.argv[1], map_location='cpu').sum().item())",
        tmp_path / "x.pt",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.stdout == "2.0\n", done.stderr


def test_a_model_and_its_optimizer_continue_on_another_device(tmp_path):
    torch.manual_seed(0)
    # In float64, because gradients before a BatchNorm are nearly 0 and Adam enlarges their rounding errors.
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).double().npu()
    optimizer = torch.optim.Adam(net.parameters())
    x = torch.randn(5, 4, dtype=torch.float64)

    def step(net, optimizer):
        optimizer.zero_grad()
        net(x.to(next(net.parameters()).device)).pow(2).sum().backward()
        optimizer.step()

    step(net, optimizer)
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "check.pt")
    step(net, optimizer)

    twin = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).double()
    state = torch.load(tmp_path / "check.pt", map_location="cpu")
    twin.load_state_dict(state["net"])
    twin_optimizer = torch.optim.Adam(twin.parameters())
    twin_optimizer.load_state_dict(state["optimizer"])
    step(twin, twin_optimizer)
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value.cpu(), twin.state_dict()[name], rtol=1e-4, atol=1e-6)


def test_parameters_pickle():
    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    back = pickle.loads(pickle.dumps(parameter))
    assert isinstance(back, torch.nn.Parameter)
    assert back.is_npu
    assert back.tolist() == [1, 1]
