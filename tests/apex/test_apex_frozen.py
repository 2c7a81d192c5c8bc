"""Parameters and gradients that other code owns: frozen parameters that are trained later, gradients in buffers."""

import copy
import functools

import pytest
import torch
from apex import amp
from torch_npu.optim import NpuFusedSGD

from tests.apex.training import initialized, masters, net, scale, sgd, train


def fused(model):
    return NpuFusedSGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)


def frozen_net():
    model = net()
    model.conv.requires_grad_(False)
    return model


@pytest.mark.parametrize("make", [sgd, fused])
@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_parameter_can_be_thawed(level, combine, make):
    model = frozen_net()
    model, optimizer = amp.initialize(model, make(model), opt_level=level, combine_grad=combine, loss_scale=128.0, verbosity=0)
    before = model.conv.weight.detach().clone()
    train(model, optimizer, steps=2)
    assert model.conv.weight.equal(before)
    model.conv.requires_grad_(True)
    train(model, optimizer, steps=4, first=2)
    trained = masters(optimizer)
    assert all(value.dtype == torch.float32 for value in trained)
    amp.uninitialize()
    assert all(one is other for one, other in zip(optimizer.param_groups[0]["params"], model.parameters(), strict=True))

    plain = frozen_net()
    plain, optimizer = amp.initialize(plain, make(plain), opt_level="O0", verbosity=0)
    train(plain, optimizer, steps=2)
    plain.conv.requires_grad_(True)
    train(plain, optimizer, steps=4, first=2)
    for value, expected in zip(trained, masters(optimizer), strict=True):
        torch.testing.assert_close(value, expected, rtol=2e-2, atol=2e-3)


def test_a_thawed_parameter_takes_part_in_combined_gradients():
    model = frozen_net()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", combine_grad=True, verbosity=0)
    train(model, optimizer, steps=1)
    before = [flat.numel() for flat in optimizer.get_model_combined_grads()]
    model.conv.requires_grad_(True)
    train(model, optimizer, steps=1)
    after = [flat.numel() for flat in optimizer.get_model_combined_grads()]
    assert sum(after) - sum(before) == model.conv.weight.numel() + model.conv.bias.numel()


def test_a_checkpoint_of_a_trained_parameter_goes_to_a_frozen_one():
    model, optimizer = initialized(opt_level="O2", loss_scale=128.0)
    train(model, optimizer, steps=2)
    weights, states = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    amp.uninitialize()
    model = frozen_net()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", loss_scale=128.0, verbosity=0)
    model.load_state_dict(weights)
    optimizer.load_state_dict(states)
    model.conv.requires_grad_(True)
    train(model, optimizer, steps=1, first=2)
    assert {state["momentum_buffer"].dtype for state in optimizer.state.values()} == {torch.float32}


def test_values_that_the_program_gives_to_a_frozen_parameter_stay():
    model = frozen_net()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", loss_scale=128.0, verbosity=0)
    with torch.no_grad():
        model.conv.weight.fill_(0.25)
    train(model, optimizer, steps=2)
    assert model.conv.weight.eq(0.25).all()
    model.conv.requires_grad_(True)
    train(model, optimizer, steps=1)
    assert 0 < (model.conv.weight.float() - 0.25).abs().max() < 0.1


def test_a_thawed_parameter_is_checked_for_overflow():
    model = frozen_net()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O1", verbosity=0)
    train(model, optimizer, steps=1)
    model.conv.requires_grad_(True)
    before = masters(optimizer)
    model.conv.weight.register_hook(lambda grad: grad * float("inf"))
    start = scale()
    train(model, optimizer, steps=1)
    assert scale() == start / 2
    assert all(one.equal(other) for one, other in zip(masters(optimizer), before, strict=True))


def write_into(view, param):
    view.copy_(param.grad)
    param.grad = view


@pytest.mark.parametrize("set_to_none", [False, True])
def test_gradients_in_a_buffer_that_the_backward_pass_writes_are_not_counted_twice(set_to_none):
    """DistributedDataParallel(gradient_as_bucket_view=True) does so."""

    def grads(with_buffer):
        model, optimizer = initialized(opt_level="O1")
        for param in model.parameters() if with_buffer else ():
            view = torch.zeros(param.numel() + 1, device="npu")[1:].view_as(param)
            param.register_post_accumulate_grad_hook(functools.partial(write_into, view))
        x = torch.ones(4, 3, 8, 8, device="npu")
        for _ in range(2):
            optimizer.zero_grad(set_to_none=set_to_none)
            for factor in (1.0, 2.0):
                with amp.scale_loss(model(x).float().square().mean() * factor, optimizer) as scaled_loss:
                    scaled_loss.backward()
        result = [param.grad.cpu() for param in model.parameters() if param.grad is not None]
        amp.uninitialize()
        return result

    for value, expected in zip(grads(True), grads(False), strict=True):
        assert value.equal(expected)
