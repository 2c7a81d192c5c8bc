"""Fused optimizers notice what a program replaces between two steps: parameters, data, gradients, states, groups."""

import operator

import pytest
import torch
from torch_npu import optim, softnpu

from tests.compare import assert_same
from tests.npu_modules.optim_cases import ALL, TWINS, both, fused, loss, parameters, plain, train

SQUARE = ((3, 3), (3, 3), (4,))


def zero_to_none(params, optimizer, step):
    for param in params:
        param.grad = None
    loss(params).backward()


def scale_gradient_data(params, optimizer, step):
    loss(params).backward()
    params[0].grad.data = params[0].grad.data * 0.5


def swap_gradients(params, optimizer, step):
    loss(params).backward()
    params[0].grad, params[1].grad = params[1].grad, params[0].grad


def share_a_gradient(params, optimizer, step):
    optimizer.zero_grad(set_to_none=True)
    loss(params).backward()
    if step == 2:
        params[0].grad = params[1].grad


def alias_a_gradient(params, optimizer, step):
    loss(params).backward()
    params[0].grad = params[0].grad.detach()


def transpose_a_gradient(params, optimizer, step):
    loss(params).backward()
    params[0].grad = params[0].grad.t()


def keep_the_graph_of_gradients(params, optimizer, step):
    loss(params).backward(create_graph=True)


def replace_data(params, optimizer, step):
    params[1].data = params[1].data * 0.5
    loss(params).backward()


def transpose_data(params, optimizer, step):
    optimizer.zero_grad(set_to_none=True)
    params[0].data = params[0].data.t()
    loss(params).backward()


def skip_a_parameter(params, optimizer, step):
    optimizer.zero_grad(set_to_none=True)
    loss([param for index, param in enumerate(params) if (index + step) % 3]).backward()


def skip_all_parameters(params, optimizer, step):
    optimizer.zero_grad(set_to_none=True)
    if step != 2:
        loss(params).backward()


def freeze_a_parameter(params, optimizer, step):
    optimizer.zero_grad(set_to_none=True)
    params[step % 3].requires_grad_(False)
    params[(step + 1) % 3].requires_grad_(True)
    loss(params).backward()


def replace_a_state(params, optimizer, step):
    loss(params).backward()
    for name, value in optimizer.state.get(params[1], {}).items():
        if torch.is_tensor(value) and value.dim():
            optimizer.state[params[1]][name] = torch.full_like(value, 0.5)


def replace_the_states_of_a_parameter(params, optimizer, step):
    loss(params).backward()
    if params[1] in optimizer.state:
        optimizer.state[params[1]] = dict(optimizer.state[params[1]])
        optimizer.state[params[1]].update({k: v * 0.5 for k, v in optimizer.state[params[1]].items() if v.dim()})


def forget_the_states_of_a_parameter(params, optimizer, step):
    loss(params).backward()
    optimizer.state.pop(params[2], None)


def write_to_the_counter(params, optimizer, step):
    loss(params).backward()
    for param in params:
        if "step" in optimizer.state.get(param, {}):
            optimizer.state[param]["step"] = torch.tensor(20.0)


def replace_a_parameter(params, optimizer, step):
    """As amp does when it puts float32 copies into the groups; the old parameter still has a gradient."""
    copy = torch.nn.Parameter(params[1].detach().clone())
    for group in optimizer.param_groups:
        group["params"] = [copy if param is params[1] else param for param in group["params"]]
    if params[1] in optimizer.state:
        optimizer.state[copy] = optimizer.state.pop(params[1])
    params[1] = copy
    loss(params).backward()


def remove_a_group(params, optimizer, step):
    loss(params).backward()
    if step == 2:
        del optimizer.param_groups[1]


def change_options(params, optimizer, step):
    loss(params).backward()
    for index, group in enumerate(optimizer.param_groups):
        group["lr"] = 0.01 * (step + 1) / (index + 1)
        group["weight_decay"] = 0.1 * (step % 2)


CHANGES = [
    zero_to_none, scale_gradient_data, swap_gradients, share_a_gradient, alias_a_gradient, transpose_a_gradient,
    keep_the_graph_of_gradients, replace_data, transpose_data, skip_a_parameter, skip_all_parameters, freeze_a_parameter,
    replace_a_state, replace_the_states_of_a_parameter, forget_the_states_of_a_parameter, write_to_the_counter,
    replace_a_parameter, remove_a_group, change_options,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph=True")
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", TWINS)
def test_the_next_step_is_that_of_torch_optim(name, change):
    results = []
    for device, make in both(name):
        params = parameters(device, SQUARE)
        optimizer = make([{"params": params[:2]}, {"params": params[2:], "lr": 0.05}])
        train(optimizer, params, 2)
        for step in range(4):
            optimizer.zero_grad(set_to_none=False)
            change(params, optimizer, step)
            optimizer.step()
        train(optimizer, params, 1)
        results.append(params)
    assert_same(*results)


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_gradients_that_are_set_to_none_change_nothing(name, set_to_none):
    expected, params = parameters("npu"), parameters("npu")
    train(fused(name, expected), expected, 4)
    train(fused(name, params), params, 4, set_to_none=set_to_none)
    torch.testing.assert_close(params, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ALL)
def test_fresh_gradients_take_one_more_launch_for_any_number_of_parameters(name):
    counts = []
    for number in (2, 50):
        params = parameters("npu", [(5,), (4, 3)] * number)
        optimizer = fused(name, params)
        train(optimizer, params, 2, set_to_none=True)
        kept = [param.grad.clone() for param in params]
        with softnpu.faults("count"):
            optimizer.step()
            steady = softnpu.fault_counts()["launch"]
            for param, grad in zip(params, kept, strict=True):
                param.grad = grad
            optimizer.step()
            counts.append((steady, softnpu.fault_counts()["launch"] - steady))
    assert counts[0] == counts[1] and counts[0][1] == counts[0][0] + 1


@pytest.mark.parametrize("name", ALL)
def test_a_model_may_change_its_dtype(name):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).npu()
    optimizer = fused(name, model.parameters())
    x = torch.ones(2, 4, device="npu")
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        model.to(dtype)
        optimizer.zero_grad()
        model(x.to(dtype)).float().square().sum().backward()
        before = [param.detach().clone() for param in model.parameters()]
        optimizer.step()
        flats = [flat for flat in optimizer.get_combined_params() if flat is not None]
        assert [flat.dtype for flat in flats] == [dtype] and all(param.dtype == dtype for param in model.parameters())
        assert not any(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_float32_copies_of_half_parameters_are_stepped(name):
    """The way of amp's O2: the groups hold copies, whose gradients are the model's, converted."""
    model = [torch.nn.Parameter(param.detach().half()) for param in parameters("npu")]
    expected = [torch.nn.Parameter(param.detach().float()) for param in model]
    optimizer, alone = fused(name, model), fused(name, expected)
    masters = [torch.nn.Parameter(param.detach().float()) for param in model]
    optimizer.param_groups[0]["params"] = masters
    for _ in range(3):
        for copies, steps in ((masters, optimizer), (expected, alone)):
            half = [copy.detach().half().requires_grad_() for copy in copies]
            loss(half).backward()
            for copy, each in zip(copies, half, strict=True):
                copy.grad = each.grad.float()
            steps.step()
    torch.testing.assert_close(masters, expected, rtol=0, atol=0)
    assert set(map(id, optimizer.state)) <= set(map(id, masters))


def test_a_program_that_changes_nothing_is_not_combined_again():
    params = parameters("npu")
    optimizer = fused("adam", params)
    train(optimizer, params, 2)
    flats = optimizer.get_optimizer_combined_params() + optimizer.get_optimizer_combined_grads()
    train(optimizer, params, 2, set_to_none=True)
    optimizer.load_state_dict(optimizer.state_dict())
    train(optimizer, params, 1)
    again = optimizer.get_optimizer_combined_params() + optimizer.get_optimizer_combined_grads()
    assert len(flats) == 2 and all(map(operator.is_, flats, again))


def test_combined_tensors_follow_the_parameters():
    params = parameters("npu")
    optimizer = fused("momentum", params)
    assert optimizer.get_optimizer_combined_params() == [] and optimizer.get_optimizer_combined_grads() == []
    loss(params).backward()
    params[0].data = torch.full_like(params[0], 7.0)
    (flat,), (grad,) = optimizer.get_optimizer_combined_params(), optimizer.get_optimizer_combined_grads()
    assert flat[:12].eq(7.0).all() and flat.numel() == grad.numel() == sum(param.numel() for param in params)
    grad.fill_(2.0)
    assert all(param.grad.eq(2.0).all() for param in params)
    params[0].data = torch.full_like(params[0], 5.0)
    assert optimizer.get_optimizer_combined_params()[0][:12].eq(5.0).all()


def test_parameters_that_share_memory_are_refused_and_kept():
    one = torch.nn.Parameter(torch.ones(4, device="npu"))
    other = torch.nn.Parameter(one.detach()[2:])
    optimizer = optim.NpuFusedSGD([one, other], lr=0.1)
    one.grad, other.grad = torch.ones_like(one), torch.ones_like(other)
    with pytest.raises(RuntimeError, match="share memory, but numbers 0 and 1 of those with a gradient do: use one"):
        optimizer.step()
    assert one.eq(1).all() and other.data_ptr() == one.data_ptr() + 8


@pytest.mark.parametrize("name", TWINS)
def test_a_module_used_twice_is_one_parameter(name):
    results = []
    for device, make in both(name):
        torch.manual_seed(0)
        shared = torch.nn.Linear(3, 3)
        model = torch.nn.Sequential(shared, torch.nn.Tanh(), shared).to(device)
        optimizer = make(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 3, device=device)).square().sum().backward()
            optimizer.step()
        results.append(list(model.parameters()))
    assert_same(*results)


def test_on_the_cpu_steps_are_those_of_torch_optim():
    for name in TWINS:
        params, expected = parameters("cpu"), parameters("cpu")
        train(fused(name, params), params, 3)
        train(plain(name, expected), expected, 3)
        torch.testing.assert_close(params, expected)
