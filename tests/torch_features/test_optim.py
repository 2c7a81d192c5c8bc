"""Optimizers make the steps of the CPU, with and without foreach and fused."""

import pytest
import torch
from torch_npu import softnpu

from tests.compare import assert_same

OPTIMIZERS = {
    "sgd": lambda p, **o: torch.optim.SGD(p, lr=0.1, **o),
    "momentum": lambda p, **o: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2, **o),
    "adam": lambda p, **o: torch.optim.Adam(p, lr=0.01, **o),
    "amsgrad": lambda p, **o: torch.optim.Adam(p, lr=0.01, amsgrad=True, weight_decay=1e-2, **o),
    "adamw": lambda p, **o: torch.optim.AdamW(p, lr=0.01, **o),
    "adagrad": lambda p, **o: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.01, weight_decay=1e-2, **o),
}


def steps(make, device, options, count=20):
    generator = torch.Generator().manual_seed(0)
    shapes = [(4, 3), (3,), (), (2, 3, 2)]
    parameters = [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in shapes]
    optimizer = make(parameters, **options)
    for _ in range(count):
        optimizer.zero_grad()
        sum((parameter**2).sum() + parameter.sin().sum() for parameter in parameters).backward()
        optimizer.step()
    state = [value for each in optimizer.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    return [parameter.detach() for parameter in parameters], state


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"foreach": False}, {"maximize": True}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_those_of_the_cpu(name, options):
    expected, expected_state = steps(OPTIMIZERS[name], "cpu", options)
    got, state = steps(OPTIMIZERS[name], "npu", options)
    assert_same(got, expected)
    assert len(state) == len(expected_state)
    for one, other in zip(state, expected_state, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw"])
def test_fused_steps_equal_those_of_the_cpu(name):
    assert_same(steps(OPTIMIZERS[name], "npu", {"fused": True})[0], steps(OPTIMIZERS[name], "cpu", {})[0])


def lists(device, count):
    generator = torch.Generator().manual_seed(0)
    return [[torch.rand(3, generator=generator).to(device) for _ in range(count)] for _ in range(5)]


def fused_steps(device, lr, count=3):
    """One step of each fused optimizer, with the rate as a number or a tensor."""
    parameters, grads, first, second, third = lists(device, count)
    steps = [torch.ones((), device=device) for _ in range(count)]
    adam = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": True, "maximize": False}
    torch._fused_adam_(parameters, grads, first, second, third, steps, lr=lr, **adam)
    torch._fused_adamw_(parameters, grads, first, second, third, steps, lr=lr, **adam)
    sgd = {"weight_decay": 0.01, "momentum": 0.9, "dampening": 0.1, "nesterov": False, "maximize": False, "is_first_step": False}
    torch._fused_sgd_(parameters, grads, first, lr=lr, **sgd)
    torch._fused_adagrad_(parameters, grads, second, steps, lr=lr, lr_decay=0.1, weight_decay=0.01, eps=1e-8, maximize=False)
    return parameters, first, second, third


@pytest.mark.parametrize("rate", [lambda device: 0.1, lambda device: torch.tensor(0.1, device=device)], ids=["number", "tensor"])
def test_a_fused_step_is_one_launch_for_a_list(rate):
    assert_same(fused_steps("npu", rate("npu")), fused_steps("cpu", rate("cpu")))
    counts = []
    for count in (2, 5):
        lr = rate("npu")
        with softnpu.faults("count"):
            fused_steps("npu", lr, count)
            counts.append(softnpu.fault_counts()["launch"] - count)  # creates the step counters
    assert counts == [4, 4]


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("where", ["npu", "cpu"])
def test_the_rate_of_a_fused_step_can_be_a_tensor_on_any_device(where, rank):
    rate = torch.tensor(0.1).reshape([1] * rank).to(where)
    assert_same(fused_steps("npu", rate), fused_steps("cpu", 0.1))


@pytest.mark.parametrize("foreach", [None, False])
def test_gradients_are_clipped(foreach):
    results = []
    for device in ("cpu", "npu"):
        x = torch.arange(1.0, 5.0).to(device).requires_grad_()
        (x**2).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_([x], 1.0, foreach=foreach)
        results.append([norm, x.grad])
    assert_same(results[1], results[0])


def test_schedulers_change_the_rate():
    x = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
        scheduler.step()
    assert x.tolist() == [-0.5, -0.5]


def test_state_moves_between_devices():
    x = torch.ones(2, device="npu", requires_grad=True)
    optimizer = torch.optim.Adam([x])
    x.sum().backward()
    optimizer.step()
    y = torch.ones(2, requires_grad=True)
    on_cpu = torch.optim.Adam([y])
    on_cpu.load_state_dict(optimizer.state_dict())
    assert on_cpu.state[y]["exp_avg"].device.type == "cpu"
    optimizer.load_state_dict(on_cpu.state_dict())
    assert optimizer.state[x]["exp_avg"].is_npu
