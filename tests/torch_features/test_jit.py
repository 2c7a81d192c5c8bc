"""TorchScript on npu: traced and scripted programs run, are saved, move and are frozen."""

import io

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2)

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x))) + torch.ones([2], device=x.device)


@pytest.fixture
def net():
    return Net().npu().eval()


@pytest.fixture
def x():
    return torch.linspace(-1, 1, 12).view(4, 3).npu()


def loaded(program, location):
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file, map_location=location)


@pytest.mark.parametrize("location", [None, "cpu", "npu", "npu:0", torch.device("npu"), torch.device("cpu")], ids=str)
def test_a_program_is_loaded_to_the_map_location(net, x, location):
    for program in (torch.jit.script(net), torch.jit.trace(nn.Sequential(net.linear, net.norm), x)):
        back = loaded(program, location)
        parameter = next(back.parameters())
        assert parameter.device.type == torch.device(location or "npu").type
        torch.testing.assert_close(back(x.to(parameter.device)).cpu(), program(x).cpu())


def test_a_device_that_is_not_there_is_named(net):
    with pytest.raises(RuntimeError, match="npu:99"):
        loaded(torch.jit.script(net), "npu:99")


def test_a_trace_names_npu_and_keeps_its_results(net, x):
    traced = torch.jit.trace(net, x)
    assert 'value="npu:0"' in str(traced.inlined_graph)
    for input in (x, x[:2], x * 3):
        torch.testing.assert_close(traced(input), net(input))
    torch.jit.trace(net, x, check_inputs=[(x * 2,)])


def test_a_traced_program_trains(net, x):
    def gradients(function):
        net.zero_grad()
        function(x).pow(2).sum().backward()
        return [parameter.grad for parameter in net.parameters()]

    torch.testing.assert_close(gradients(torch.jit.trace(net, x)), gradients(net))


def test_a_script_moves_between_devices(x):
    program = torch.jit.script(Net().eval())
    expected = program(x.cpu())
    torch.testing.assert_close(program.npu()(x).cpu(), expected)
    torch.testing.assert_close(program.to("cpu")(x.cpu()), expected)


@torch.jit.script
def control_flow(x: torch.Tensor, times: int):
    y = torch.zeros([2], device=x.device)
    for _ in range(times):
        y += x.sum() if bool(x.sum() > 0) else x.sum() * 0
    return y.to("npu"), x.is_cuda, str(x.device)


@torch.jit.script
def pointwise(a: torch.Tensor, b: torch.Tensor):
    return (a * b + a).tanh() * b


def test_scripts_keep_their_results_while_they_are_optimised(x):
    """The executor profiles the first calls and then runs an optimised program."""
    y = x.clone().requires_grad_()
    for _ in range(5):
        result, is_cuda, device = control_flow(x + 1, 3)
        torch.testing.assert_close(result, torch.zeros(2, device="npu") + 3 * (x + 1).sum())
        assert (is_cuda, device) == (False, "npu:0")
        torch.testing.assert_close(pointwise(x, x), (x * x + x).tanh() * x)
        (gradient,) = torch.autograd.grad(pointwise(y, y).sum(), y)
        (expected,) = torch.autograd.grad(((y * y + y).tanh() * y).sum(), y)
        torch.testing.assert_close(gradient, expected)


def test_frozen_programs(net, x):
    expected = net(x)
    frozen = torch.jit.freeze(torch.jit.script(net))
    assert not list(frozen.parameters())
    for program in (frozen, torch.jit.optimize_for_inference(torch.jit.script(net)), loaded(frozen, "npu")):
        for _ in range(3):
            torch.testing.assert_close(program(x), expected)


def test_work_is_forked_and_awaited(x):
    @torch.jit.script
    def both(x: torch.Tensor):
        future = torch.jit.fork(torch.sin, x)
        return torch.jit.wait(future) + x.cos()

    torch.testing.assert_close(both(x), x.sin() + x.cos())
