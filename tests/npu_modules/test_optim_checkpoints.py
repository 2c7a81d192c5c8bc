"""Checkpoints of the fused optimizers: the layout of torch.optim, exchange in both directions, equal bits after a restart."""

import copy
import io
import pickle

import pytest
import torch
from torch_npu import optim

from tests.compare import assert_same
from tests.npu_modules.optim_cases import ALL, TWINS, fused, loss, parameters, plain, train


def layout(state_dict):
    """The types, shapes and dtypes of the states."""
    kinds = {}
    for index, state in state_dict["state"].items():
        for name, value in state.items():
            kinds[index, name] = (value.dtype, value.shape) if isinstance(value, torch.Tensor) else type(value)
    return kinds


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer)


def bits(tensors):
    return [tensor.detach().cpu().clone() for tensor in tensors]


def assert_equal_bits(tensors, expected):
    for one, other in zip(tensors, expected, strict=True):
        torch.testing.assert_close(one.detach().cpu(), other.detach().cpu(), rtol=0, atol=0)


@pytest.mark.parametrize("name", TWINS)
def test_states_have_the_names_and_kinds_of_torch_optim(name):
    ours, theirs = parameters("npu"), parameters("cpu")
    optimizer, reference = fused(name, ours), plain(name, theirs)
    train(optimizer, ours, 2)
    train(reference, theirs, 2)
    assert layout(optimizer.state_dict()) == layout(reference.state_dict())
    for one, other in zip(optimizer.state_dict()["param_groups"], reference.state_dict()["param_groups"], strict=True):
        assert set(one) <= set(other) and all(one[key] == other[key] for key in one)


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", TWINS)
def test_a_fused_checkpoint_continues_in_torch_optim(name, foreach):
    """Also the other way round: two steps of each in turn are six steps of torch.optim."""
    expected = parameters("cpu")
    train(plain(name, expected), expected, 6)

    params = parameters("npu")
    optimizer = fused(name, params)
    train(optimizer, params, 2)
    other = [torch.nn.Parameter(param.detach().cpu()) for param in params]
    reference = plain(name, other, foreach=foreach)
    reference.load_state_dict(saved(optimizer.state_dict()))
    train(reference, other, 2)
    last = [torch.nn.Parameter(param.detach().npu()) for param in other]
    optimizer = fused(name, last)
    optimizer.load_state_dict(saved(reference.state_dict()))
    train(optimizer, last, 2)
    assert_same(last, expected)
    steps = {float(state["step"]) for state in optimizer.state_dict()["state"].values() if "step" in state}
    assert steps <= {6.0}


@pytest.mark.parametrize("name", ["adam", "adamw", "rmsprop"])
def test_a_checkpoint_of_the_fused_mode_of_torch_optim_on_npu_is_taken(name):
    options = {"fused": True} if name.startswith("adam") else {"foreach": True}
    expected, params = parameters("npu"), parameters("npu")
    reference, before = plain(name, expected, **options), plain(name, params, **options)
    train(reference, expected, 4)
    train(before, params, 2)
    optimizer = fused(name, params)
    optimizer.load_state_dict(before.state_dict())
    train(optimizer, params, 2)
    torch.testing.assert_close(params, expected)


@pytest.mark.parametrize("name", ALL)
def test_a_restart_from_a_file_gives_equal_bits(name):
    params = parameters("npu")
    optimizer = fused(name, params)
    train(optimizer, params, 3)
    state, values = saved([optimizer.state_dict(), [param.detach() for param in params]])
    train(optimizer, params, 3)

    resumed = [torch.nn.Parameter(value) for value in values]
    other = fused(name, resumed)
    other.load_state_dict(state)
    train(other, resumed, 3)
    assert_equal_bits(resumed, params)


@pytest.mark.parametrize("name", ALL)
def test_loading_in_the_middle_of_training_goes_back(name):
    params = parameters("npu")
    optimizer = fused(name, params)
    train(optimizer, params, 2)
    state, values = copy.deepcopy(optimizer.state_dict()), bits(params)
    train(optimizer, params, 2)
    expected = bits(params)
    with torch.no_grad():
        for param, value in zip(params, values, strict=True):
            param.copy_(value)
    optimizer.load_state_dict(state)
    train(optimizer, params, 2)
    assert_equal_bits(params, expected)


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_a_state_dict_does_not_share_the_counter_of_steps(name):
    params = parameters("npu")
    optimizer = fused(name, params)
    train(optimizer, params, 1)
    state = optimizer.state_dict()["state"]
    state[0]["step"] += 5
    assert [float(each["step"]) for each in state.values()] == [6.0, 1.0, 1.0, 1.0]
    assert [float(optimizer.state[param]["step"]) for param in params] == [1.0] * 4


@pytest.mark.parametrize("through", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))], ids=["copy", "pickle"])
@pytest.mark.parametrize("name", ALL)
def test_a_copy_steps_as_the_optimizer_and_apart_from_it(name, through):
    params = parameters("npu")
    optimizer = fused(name, params)
    train(optimizer, params, 2)
    twins, twin = through((params, optimizer))
    before = bits(twins)
    train(optimizer, params, 2)
    assert_equal_bits(twins, before)
    train(twin, twins, 2)
    assert_equal_bits(twins, params)


def test_the_counter_of_the_real_package_is_a_number():
    params = parameters("npu")
    optimizer = fused("adam", params)
    train(optimizer, params, 3)
    state = copy.deepcopy(optimizer.state_dict())
    for each in state["state"].values():
        each["step"] = int(each["step"])
    copies = [torch.nn.Parameter(param.detach().clone()) for param in params]
    other = fused("adam", copies)
    other.load_state_dict(state)
    train(optimizer, params, 1)
    train(other, copies, 1)
    assert_equal_bits(copies, params)


@pytest.mark.parametrize("name", TWINS)
def test_a_checkpoint_keeps_the_direction_and_a_rate_that_is_a_tensor(name):
    ours, theirs = parameters("npu"), parameters("cpu")
    reference = plain(name, theirs, maximize=True)
    optimizer = fused(name, ours)
    state = reference.state_dict()
    state["param_groups"][0]["lr"] = torch.tensor(state["param_groups"][0]["lr"])
    optimizer.load_state_dict(state)
    train(optimizer, ours, 3)
    train(reference, theirs, 3)
    assert_same(ours, theirs)


@pytest.mark.parametrize("kinds", [(optim.NpuFusedAdam, torch.optim.Adam), (optim.NpuFusedAdamW, torch.optim.AdamW)])
def test_a_checkpoint_of_adamw_decays_in_adam_as_torch_optim_does(kinds):
    results = []
    for device, kind in zip(("npu", "cpu"), kinds, strict=True):
        params = parameters(device)
        source = torch.optim.AdamW(params, lr=0.01, weight_decay=0.5)
        optimizer = kind(params, lr=0.01)
        optimizer.load_state_dict(source.state_dict())
        train(optimizer, params, 3)
        results.append(params)
    assert_same(*results)


def test_groups_of_another_size_are_refused():
    optimizer = fused("adam", parameters("npu"))
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimizer.load_state_dict(fused("adam", parameters("npu", shapes=[(2,)])).state_dict())


def test_hooks_of_state_dicts_and_steps_run():
    params = parameters("npu")
    optimizer = fused("momentum", params)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    optimizer.register_state_dict_post_hook(lambda _, state: calls.append(sorted(state)))
    loss(params).backward()
    optimizer.step()
    optimizer.state_dict()
    assert calls == ["before", "after", ["param_groups", "state"]]
