"""Activation checkpointing recomputes activations with the same random numbers."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.compare import on_both
from tests.support import two_devices


def layers(device):
    return [nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.5)).to(device) for _ in range(3)]


def gradients(run, nets, seed=0):
    torch.manual_seed(seed)
    x = torch.linspace(-1, 1, 32).view(4, 8).to(nets[0][0].weight.device).requires_grad_()
    output = run(x)
    after = torch.rand(2, device=x.device)
    output.pow(2).sum().backward()
    return [output.detach(), after, x.grad, *(p.grad.clone() for net in nets for p in net.parameters())]


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_are_those_without_checkpoints(reentrant):
    nets = layers("npu")
    plain = gradients(lambda x: nets[2](nets[1](nets[0](x))), nets)
    for net in nets:
        net.zero_grad()

    def run(x):
        for net in nets:
            x = checkpoint(net, x, use_reentrant=reentrant)
        return x

    for one, other in zip(gradients(run, nets), plain, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout_differs_without_preserve_rng_state(reentrant):
    nets = layers("npu")
    plain = gradients(lambda x: nets[0](x), nets[:1])
    nets[0].zero_grad()
    again = gradients(lambda x: checkpoint(nets[0], x, use_reentrant=reentrant, preserve_rng_state=False), nets[:1])
    assert torch.equal(plain[0], again[0])
    assert not torch.equal(plain[2], again[2])


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_leaves_the_generator_unchanged(reentrant):
    net = layers("npu")[0]
    x = torch.ones(4, 8, device="npu", requires_grad=True)
    output = checkpoint(net, x, use_reentrant=reentrant)
    state = torch.npu.get_rng_state()
    output.sum().backward()
    assert torch.equal(torch.npu.get_rng_state(), state)


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputation_uses_the_autocast_of_the_first_pass(reentrant):
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).npu()
    seen = []
    net[0].register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    with torch.autocast("npu", dtype=torch.bfloat16):
        output = checkpoint(net, torch.ones(4, 8, device="npu", requires_grad=True), use_reentrant=reentrant)
    output.float().sum().backward()
    assert seen == [torch.bfloat16] * 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_sequence_is_cut_into_segments(reentrant):
    def run(device):
        net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)]).to(device)
        x = torch.linspace(-1, 1, 32).view(4, 8).to(device).requires_grad_()
        checkpoint_sequential(net, 2, x, use_reentrant=reentrant).sum().backward()
        return x.grad, [parameter.grad for parameter in net.parameters()]

    on_both(run)


def test_checkpointing_saves_memory(empty_device):
    net = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Tanh()) for _ in range(8)]).npu()
    x = torch.ones(1024, 256, device="npu", requires_grad=True)

    def held(run):
        before = torch.npu.memory_allocated()
        output = run(x)
        after = torch.npu.memory_allocated()
        output.sum().backward()
        return after - before

    plain = held(net)
    checkpointed = held(lambda x: checkpoint_sequential(net, 4, x, use_reentrant=False))
    assert checkpointed * 2 < plain


@two_devices
def test_the_generator_of_each_device_is_restored():
    def function(x, y):
        return nn.functional.dropout(x) * 2, nn.functional.dropout(y) * 3

    def run(call):
        torch.manual_seed(0)
        x = torch.ones(100, device="npu:0", requires_grad=True)
        y = torch.ones(100, device="npu:1", requires_grad=True)
        a, b = call(x, y)
        with torch.autograd.set_multithreading_enabled(False):  # torch recomputes in the threads of all devices at the same time
            (a.sum() + b.to("npu:0").sum()).backward()
        return x.grad, y.grad

    plain = run(function)
    for reentrant in (True, False):
        again = run(lambda x, y, reentrant=reentrant: checkpoint(function, x, y, use_reentrant=reentrant))
        assert all(torch.equal(one, other) for one, other in zip(plain, again, strict=True))
