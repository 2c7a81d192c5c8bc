"""Fused optimizers on parameters of all layouts and dtypes, in groups with schedules, with clipped and sparse gradients."""

import math

import pytest
import torch
from torch_npu import optim
from torch_npu.optim import chunk

from tests.compare import assert_same
from tests.npu_modules.optim_cases import ALL, TWINS, both, fused, loss, parameters, plain, train


def strided(device):
    """Parameters that are transposed, every second element, at an offset, channels last, 0-dimensional, empty, one row."""
    base = [param.detach() for param in parameters(device, [(4, 3), (6, 4), (8,), (2, 3, 4, 2), (), (0, 3), (1, 5), (0,)])]
    base[0] = base[0].t()
    base[1] = base[1][::2, 1:3]
    base[2] = base[2][3:7]
    base[3] = base[3].to(memory_format=torch.channels_last)
    return [torch.nn.Parameter(each) for each in base]


@pytest.mark.parametrize("name", TWINS)
def test_layouts(name):
    results = []
    for device, make in both(name):
        params = strided(device)
        train(make(params), params, 4)
        results.append(params)
    assert_same(*results, strides=False)
    for one, other in zip(*results, strict=True):
        assert one.stride() == other.stride() or torch.empty_like(other).stride() != other.stride()


@pytest.mark.parametrize("name", ALL)
def test_a_layout_does_not_change_the_values(name):
    params = strided("npu")
    copies = [torch.nn.Parameter(param.detach().clone(memory_format=torch.contiguous_format)) for param in params]
    for these in (params, copies):
        train(fused(name, these), these, 4)
    torch.testing.assert_close(params, copies)


def test_empty_parameters_have_states_as_in_torch_optim():
    states = []
    for device, make in both("adam"):
        params = parameters(device, [(0,), (0, 2)])
        optimizer = make(params)
        train(optimizer, params, 2)
        states.append([(key, value.shape, float(value.sum())) for s in optimizer.state.values() for key, value in s.items()])
    assert states[0] == states[1] != []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", TWINS)
def test_dtypes(name, dtype):
    """In half precision eps may round to zero, so steps on small gradients are not compared."""
    tolerance = {"rtol": 1e-9, "atol": 1e-9} if dtype == torch.float64 else {"rtol": 3e-2, "atol": 3e-2}
    if dtype == torch.float16 and name in ("adadelta", "centered"):
        pytest.skip("torch.optim has no finite result: eps rounds to zero")
    results = []
    for device, make in both(name):
        params = [torch.nn.Parameter(param.detach() + 2) for param in parameters(device, dtype=dtype)]
        train(make(params), params, 3)
        results.append(params)
    assert_same(*results, **tolerance)


@pytest.mark.parametrize("name", TWINS)
def test_many_steps_of_float32_stay_within_rounding(name):
    results = []
    for device, make in both(name):
        params = parameters(device, [(7, 5), (33,), (4, 3, 3)])
        train(make(params), params, 40)
        results.append(params)
    assert_same(*results, rtol=2e-5, atol=2e-6)


SCHEDULES = {
    "lambda": lambda opt: torch.optim.lr_scheduler.LambdaLR(opt, [lambda n: 0.9**n, lambda n: 1 / (1 + n), lambda n: 1.0]),
    "one_cycle": lambda opt: torch.optim.lr_scheduler.OneCycleLR(opt, [0.1, 0.05, 0.02], total_steps=12),
    "cosine": lambda opt: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["nesterov", "adam", "adamw", "centered"])
def test_groups_follow_their_schedules(name, schedule):
    results = []
    for device, make in both(name):
        params = parameters(device, [(3, 2), (4,), (2, 2), (5,), (1,)])
        params[1].requires_grad_(False)
        optimizer = make([{"params": params[:2]}, {"params": params[2:4], "lr": 0.03, "weight_decay": 0.2}])
        optimizer.add_param_group({"params": params[4], "lr": 0.02})
        scheduler = SCHEDULES[schedule](optimizer)
        for _ in range(10):
            optimizer.zero_grad()
            loss(params).backward()
            optimizer.step()
            scheduler.step()
        results.append(params)
    assert_same(*results)


@pytest.mark.parametrize("name", ALL)
def test_a_large_chunk_is_stepped_in_parts(name, monkeypatch):
    expected, params = parameters("npu"), parameters("npu")
    train(fused(name, expected), expected, 3)
    monkeypatch.setattr(chunk, "PART_ELEMENTS", 7)
    optimizer = fused(name, params)
    train(optimizer, params, 3)
    assert len(optimizer._chunks[0].parts()) == 4
    torch.testing.assert_close(params, expected)


def gradients(device, kind):
    dtypes = {"mixed": [torch.float32, torch.float16, torch.float64], "double": [torch.float64]}.get(kind, [torch.float32])
    params = [param for dtype in dtypes for param in parameters(device, dtype=dtype)]
    for index, param in enumerate(params):
        param.grad = torch.linspace(-1, 2, param.numel()).reshape(param.shape).to(param) * (index + 1) / 4
    if kind == "nan":
        params[1].grad[0] = math.nan
    if kind == "zero":
        for param in params:
            param.grad.zero_()
    return params


@pytest.mark.parametrize("kind", ["plain", "mixed", "double", "nan", "zero"])
@pytest.mark.parametrize("norm_type", [2, 1, 3.5, math.inf, 0])
@pytest.mark.parametrize("max_norm", [0.5, 100, math.inf, 0])
def test_clipping_is_that_of_torch(norm_type, max_norm, kind):
    ours, theirs = gradients("npu", kind), gradients("cpu", kind)
    norm = optim.NpuFusedAdam(ours).clip_optimizer_grad_norm_fused(max_norm, norm_type=norm_type)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm_type)
    half = {"rtol": 2e-3, "atol": 1e-4}  # torch rounds the norms of half precision
    torch.testing.assert_close(norm.cpu(), expected, equal_nan=True, check_dtype=False, **half if kind == "mixed" else {})
    grads, clipped = [param.grad for param in ours], [param.grad for param in theirs]
    assert_same(grads, clipped, **half if kind == "mixed" else {"rtol": 1e-6, "atol": 1e-7})


def test_clipping_takes_replaced_gradients_and_raises_versions():
    params = parameters("npu")
    optimizer = fused("adam", params)
    train(optimizer, params, 1)
    for param in params:
        param.grad = torch.full_like(param, 3.0)
    norm = optimizer.clip_grad_norm_fused_(1.0)
    assert math.isclose(float(norm), 3 * math.sqrt(28), rel_tol=1e-6)
    assert all(torch.allclose(param.grad, torch.full_like(param, 1 / math.sqrt(28))) for param in params)
    versions = [param.grad._version for param in params]
    optimizer.clip_grad_norm_fused_(0.1)
    assert all(param.grad._version > version for param, version in zip(params, versions, strict=True))


@pytest.mark.parametrize("name", ALL)
def test_a_step_raises_the_versions_of_parameters_with_gradients(name):
    params = parameters("npu")
    unused = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = fused(name, [*params, unused])
    train(optimizer, params, 1)
    versions = [param._version for param in (*params, unused)]
    optimizer.step()
    raised = [param._version > version for param, version in zip((*params, unused), versions, strict=True)]
    assert raised == [True] * len(params) + [False]
    saved = (params[0] * params[0]).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        saved.backward()


@pytest.mark.parametrize("options", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}], ids=str)
def test_sgd_makes_sparse_gradients_dense(options):
    results = []
    for device, kind in (("npu", optim.NpuFusedSGD), ("cpu", torch.optim.SGD)):
        torch.manual_seed(0)
        table = torch.nn.Embedding(6, 3, sparse=True).to(device)
        bias = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = kind([*table.parameters(), bias], lr=0.1, **options)
        for step in range(4):
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            (table(torch.tensor([1, 4, step], device=device)) * bias).square().sum().backward()
            optimizer.step()
        results.append([table.weight, bias])
    assert_same(*results)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("sgd", "momentum", "nesterov")])
def test_other_optimizers_refuse_sparse_gradients_before_they_change_anything(name):
    params = parameters("npu", [(3, 2), (4,)])
    params[0].grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (3, 2), check_invariants=True).npu()
    params[1].grad = torch.ones_like(params[1])
    optimizer, before = fused(name, params), [param.detach().clone() for param in params]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="does not take sparse gradients: use torch"):
            optimizer.step()
    assert params[0].grad.is_sparse and all(torch.equal(*pair) for pair in zip(params, before, strict=True))
    params[0].grad = torch.ones_like(params[0])
    optimizer.step()
    assert len(optimizer.state) == 2


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float8_e4m3fn])
def test_other_dtypes_are_refused(dtype):
    param = torch.nn.Parameter(torch.zeros(2, device="npu", dtype=dtype))
    param.grad = torch.zeros_like(param)
    with pytest.raises(TypeError, match=f"takes parameters of torch.float32, .* not {dtype}"):
        optim.NpuFusedAdam([param]).step()


@pytest.mark.parametrize("name", ALL)
def test_closures_run_once_with_gradients(name):
    params, expected = parameters("npu"), parameters("npu")
    optimizer, calls = fused(name, params), []

    def closure():
        optimizer.zero_grad()
        result = loss(params)
        result.backward()
        calls.append(result.item())
        return result

    for _ in range(3):
        assert optimizer.step(closure).item() == calls[-1]
    train(fused(name, expected), expected, 3)
    assert len(calls) == 3
    torch.testing.assert_close(params, expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", ALL)
def test_without_gradients_a_step_does_nothing(name):
    params = parameters("npu")
    optimizer = fused(name, params)
    optimizer.step()
    optimizer.zero_grad()
    assert len(optimizer.state) == 0 and optimizer.get_combined_params() == [None, None]


@pytest.mark.parametrize("name", ["momentum", "adam", "rmsprop"])
def test_autocast_and_a_scaler_train_as_with_torch_optim(name):
    results = []
    for make in (fused, plain):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).npu()
        optimizer, scaler = make(name, model.parameters()), torch.amp.GradScaler("npu", init_scale=2.0**14, growth_interval=2)
        x = torch.linspace(-1, 1, 12).reshape(3, 4).npu()
        for step in range(8):
            optimizer.zero_grad()
            with torch.autocast("npu", dtype=torch.float16):
                output = model(x).square().sum() * (1e6 if step == 4 else 1.0)
            scaler.scale(output).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        results.append([*model.parameters(), torch.tensor(scaler.get_scale())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lr", [math.nan, -0.1, "0.1", None])
def test_rates_that_are_no_rates_are_named(lr):
    with pytest.raises(ValueError, match="NpuFusedAdam: lr must be a number that is not negative, not "):
        optim.NpuFusedAdam(parameters("npu"), lr=lr)


def test_both_names_say_that_the_optimizer_is_fused():
    optimizer = fused("adam", parameters("npu"))
    assert optimizer.is_npu_fused_optimizer is True and optimizer.is_fused_optimizer is True
