"""Fused optimizers on combined tensors make the steps of torch.optim on the CPU, or of a formula in this file."""

import copy
import math

import pytest
import torch
from torch_npu import optim, softnpu

from tests.compare import assert_same

SHAPES = [(4, 3), (3,), (), (2, 3, 2), (12, 12)]

# (fused optimizer, optimizer of torch.optim with the same steps).
TWINS = {
    "sgd": (lambda p: optim.NpuFusedSGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (
        lambda p: optim.NpuFusedSGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    ),
    "nesterov": (
        lambda p: optim.NpuFusedSGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    ),
    "adam": (
        lambda p: optim.NpuFusedAdam(p, lr=0.01, weight_decay=0.01),
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    ),
    "amsgrad": (
        lambda p: optim.NpuFusedAdam(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    ),
    "adamw": (lambda p: optim.NpuFusedAdamW(p, lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
    "adadelta": (
        lambda p: optim.NpuFusedAdadelta(p, weight_decay=0.01),
        lambda p: torch.optim.Adadelta(p, weight_decay=0.01),
    ),
    "rmsprop": (
        lambda p: optim.NpuFusedRMSprop(p, weight_decay=0.01),
        lambda p: torch.optim.RMSprop(p, weight_decay=0.01),
    ),
    "rmsprop_centered": (
        lambda p: optim.NpuFusedRMSprop(p, momentum=0.5, centered=True),
        lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
    ),
}
FUSED = {name: make for name, (make, _) in TWINS.items()} | {
    "lamb": lambda p: optim.NpuFusedLamb(p, lr=0.01, weight_decay=0.1),
    "adamp": lambda p: optim.NpuFusedAdamP(p, lr=0.01, weight_decay=0.1),
    "bert_adam": lambda p: optim.NpuFusedBertAdam(p, lr=0.01),
    "rmsprop_tf": lambda p: optim.NpuFusedRMSpropTF(p, momentum=0.9),
}


def parameters(device, dtype=torch.float32, shapes=SHAPES):
    generator = torch.Generator().manual_seed(0)
    made = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    return [torch.nn.Parameter(value.to(device)) for value in made]


def loss(params):
    return sum((param.float() ** 2).sum() + param.float().sin().sum() for param in params)


def train(make, device, count=8, dtype=torch.float32):
    params = parameters(device, dtype)
    optimizer = make(params)
    for _ in range(count):
        optimizer.zero_grad()
        loss(params).backward()
        optimizer.step()
    return params, optimizer


@pytest.mark.parametrize("name", TWINS)
def test_steps_and_states_are_those_of_torch_optim(name):
    fused, plain = TWINS[name]
    expected, reference = train(plain, "cpu")
    got, optimizer = train(fused, "npu")
    assert_same(got, expected)
    for one, other in zip(got, expected, strict=True):
        for key, value in reference.state[other].items():
            if isinstance(value, torch.Tensor) and key != "step":
                torch.testing.assert_close(optimizer.state[one][key].cpu(), value, rtol=1e-4, atol=1e-6)


def grads_of(params):
    for param in params:
        param.grad = None
    loss(params).backward()
    return [param.grad for param in params]


def by_formula(update, count=8):
    """Makes steps by update(param, grad, state, step, grads) on the CPU; state is an initially empty dict."""
    params = parameters("cpu")
    states = [{} for _ in params]
    for step in range(1, count + 1):
        grads = grads_of(params)
        with torch.no_grad():
            for param, grad, state in zip(params, grads, states, strict=True):
                update(param, grad, state, step, grads)
    return params


def moments(grad, state, beta1=0.9, beta2=0.999):
    state["m"] = beta1 * state.get("m", 0.0) + (1 - beta1) * grad
    state["v"] = beta2 * state.get("v", 0.0) + (1 - beta2) * grad * grad
    return state["m"], state["v"]


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("global_norm", [False, True])
def test_lamb(adam, global_norm):
    def update(param, grad, state, step, grads):
        norm = math.sqrt(sum(float((each**2).sum()) for each in grads))
        m, v = moments(grad / max(norm, 1.0) if global_norm else grad, state)
        change = m / (v.sqrt() + 1e-6) + 0.1 * param
        ratio = min(float(param.norm()), 10.0) / float(change.norm())
        param -= 0.01 * (1.0 if adam else ratio) * change

    options = {"weight_decay": 0.1, "adam": adam, "use_global_grad_norm": global_norm}
    assert_same(train(lambda p: optim.NpuFusedLamb(p, lr=0.01, **options), "npu")[0], by_formula(update))


def adamp(nesterov, delta, projected):
    """The formula of AdamP; `projected` collects the views of a weight whose radial part was removed."""

    def update(param, grad, state, step, grads):
        m, v = moments(grad, state)
        direction = 0.9 * m + 0.1 * grad if nesterov else m
        change = direction / (v.sqrt() / math.sqrt(1 - 0.999**step) + 1e-8)
        share = 1.0
        if param.dim() > 1:
            for rows in (param.shape[0], 1):
                w, g, c = (each.reshape(rows, -1) for each in (param, grad, change))
                cosine = torch.nn.functional.cosine_similarity(g, w, dim=1).abs()
                if cosine.max() < delta / math.sqrt(w.shape[1]):
                    unit = w / w.norm(dim=1, keepdim=True)
                    change = (c - unit * (unit * c).sum(1, keepdim=True)).reshape(param.shape)
                    share = 0.3
                    projected.add("channels" if rows > 1 else "whole")
                    break
        param *= 1 - 0.01 * 0.1 * share
        param -= 0.01 / (1 - 0.9**step) * change

    return update


@pytest.mark.parametrize(("delta", "views"), [(0.1, set()), (2.0, {"channels"}), (10.0, {"channels"})])
@pytest.mark.parametrize("nesterov", [False, True])
def test_adamp(nesterov, delta, views):
    projected = set()
    options = {"weight_decay": 0.1, "delta": delta, "wd_ratio": 0.3, "nesterov": nesterov}
    got, _ = train(lambda p: optim.NpuFusedAdamP(p, lr=0.01, **options), "npu")
    assert_same(got, by_formula(adamp(nesterov, delta, projected)))
    assert projected == views


def test_adamp_of_a_weight_that_is_invariant_as_a_whole():
    weight = torch.tensor([[1.0, 2.0, 3.0], [3.0, -2.0, 1.0]])
    grad = torch.cat([weight[:1], -weight[1:]]) + 0.01
    param = torch.nn.Parameter(weight.npu())
    param.grad = grad.npu()
    optim.NpuFusedAdamP([param], lr=0.01, weight_decay=0.1, wd_ratio=0.3).step()
    projected = set()
    adamp(False, 0.1, projected)(weight, grad, {}, 1, [grad])
    assert projected == {"whole"}
    assert_same(param, weight)


SHARES = {
    "warmup_linear": lambda x, w: (x - 1) / (w - 1),
    "warmup_constant": lambda x, w: 1.0,
    "warmup_cosine": lambda x, w: 0.5 * (1 + math.cos(math.pi * x)),
    "warmup_poly": lambda x, w: math.sqrt(1 - x),
}


@pytest.mark.parametrize("schedule", SHARES)
@pytest.mark.parametrize("warmup", [-1, 0.4])
def test_bert_adam(schedule, warmup):
    def update(param, grad, state, step, grads):
        norm = math.sqrt(sum(float((each**2).sum()) for each in grads))
        m, v = moments(grad / max(1.0, (norm + 1e-6) / 1.0), state)
        done = (step - 1) / 10
        rate = 0.01 * (done / warmup if done < warmup else SHARES[schedule](done, warmup))
        param -= rate * (m / (v.sqrt() + 1e-6) + 0.01 * param)

    options = {"warmup": warmup, "t_total": 10, "schedule": schedule}
    assert_same(train(lambda p: optim.NpuFusedBertAdam(p, lr=0.01, **options), "npu")[0], by_formula(update))


@pytest.mark.parametrize(
    "options", [{}, {"centered": True}, {"momentum": 0.9}, {"momentum": 0.9, "lr_in_momentum": False}], ids=str
)
@pytest.mark.parametrize("decoupled", [False, True])
def test_rmsprop_tf(options, decoupled):
    def update(param, grad, state, step, grads):
        if decoupled:
            param *= 1 - 0.02
        else:
            grad = grad + 0.02 * param
        state["v"] = state.get("v", torch.ones_like(grad)) * 0.9 + 0.1 * grad**2
        state["g"] = state.get("g", torch.zeros_like(grad)) * 0.9 + 0.1 * grad
        average = (state["v"] - (state["g"] ** 2 if options.get("centered") else 0) + 1e-10).sqrt()
        rate_inside = options.get("lr_in_momentum", True)
        state["b"] = state.get("b", 0.0) * options.get("momentum", 0.0) + (0.01 if rate_inside else 1.0) * grad / average
        param -= state["b"] * (1.0 if rate_inside else 0.01)

    make = lambda p: optim.NpuFusedRMSpropTF(p, weight_decay=0.02, decoupled_decay=decoupled, **options)  # noqa: E731
    assert_same(train(make, "npu")[0], by_formula(update))


@pytest.mark.parametrize("name", FUSED)
def test_parameters_and_gradients_are_views_of_the_combined_tensors(name):
    params, optimizer = train(FUSED[name], "npu", count=2)
    combined, grads = optimizer.get_combined_params(), optimizer.get_combined_grads()
    assert [each is not None for each in combined] == [True, False] and combined[0].numel() == sum(p.numel() for p in params)
    combined[0].fill_(2.0)
    grads[0].fill_(3.0)
    assert all((param == 2.0).all() and (param.grad == 3.0).all() for param in params)
    optimizer.zero_grad()
    assert all((param.grad == 0.0).all() for param in params)


def launches(make, count):
    params = parameters("npu", shapes=[(5,), (4, 3)] * (count // 2))
    optimizer = make(params)
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        loss(params).backward()
        optimizer.step()
    with softnpu.faults("count"):
        optimizer.zero_grad(set_to_none=False)
        zeroing = softnpu.fault_counts()["launch"]
        optimizer.step()
        return zeroing, softnpu.fault_counts()["launch"] - zeroing


@pytest.mark.parametrize("name", FUSED)
def test_a_step_takes_as_many_launches_for_200_parameters_as_for_2(name):
    many = launches(FUSED[name], 200)
    assert many == launches(FUSED[name], 2)
    assert many[0] == 1 and many[1] < (80 if name == "adamp" else 25)


@pytest.mark.parametrize("name", TWINS)
def test_torch_optim_takes_more_launches(name):
    fused, plain = TWINS[name]
    slow = lambda p: _one_by_one(plain(p))  # noqa: E731
    assert sum(launches(fused, 200)) * 20 < sum(launches(slow, 200))


def _one_by_one(optimizer):
    for group in optimizer.param_groups:
        group["foreach"] = False
    return optimizer


@pytest.mark.parametrize("name", ["momentum", "adam", "lamb", "rmsprop_tf"])
def test_training_goes_on_from_a_state_dict(name, tmp_path):
    straight, _ = train(FUSED[name], "npu", count=6)
    params, optimizer = train(FUSED[name], "npu", count=3)
    torch.save([optimizer.state_dict(), [param.detach() for param in params]], tmp_path / "state.pt")
    state, values = torch.load(tmp_path / "state.pt")
    resumed = [torch.nn.Parameter(value.clone()) for value in values]
    other = FUSED[name](resumed)
    other.load_state_dict(state)
    for _ in range(3):
        other.zero_grad()
        loss(resumed).backward()
        other.step()
    for one, expected in zip(resumed, straight, strict=True):
        torch.testing.assert_close(one, expected)


@pytest.mark.parametrize("name", ["momentum", "adam", "adadelta", "rmsprop_centered"])
def test_a_state_dict_of_torch_optim_is_taken_and_given(name):
    fused, plain = TWINS[name]
    expected, _ = train(plain, "cpu", count=6)
    before, reference = train(plain, "cpu", count=3)
    params = [torch.nn.Parameter(param.detach().npu()) for param in before]
    optimizer = fused(params)
    optimizer.load_state_dict(reference.state_dict())
    for _ in range(2):
        optimizer.zero_grad()
        loss(params).backward()
        optimizer.step()
    last = [torch.nn.Parameter(param.detach().cpu()) for param in params]
    back = plain(last)
    back.load_state_dict(optimizer.state_dict())
    loss(last).backward()
    back.step()
    torch.testing.assert_close(last, expected, rtol=1e-4, atol=1e-5)


def test_a_copy_of_an_optimizer_steps_as_the_optimizer_does():
    params, optimizer = train(FUSED["lamb"], "npu", count=2)
    twins, twin = copy.deepcopy((params, optimizer))
    for these, one in ((params, optimizer), (twins, twin)):
        one.zero_grad()
        loss(these).backward()
        one.step()
    for one, other in zip(params, twins, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def uneven(make, device):
    """Trains with gradients that are missing, set to None and replaced, with replaced data, and with an added group."""
    params = parameters(device, shapes=[(3,), (2, 2), (4,), (5,)])
    optimizer = make(params[:3])
    late = torch.nn.Parameter(torch.ones(3, device=device))
    for step in range(9):
        optimizer.zero_grad(set_to_none=step % 3 == 0)
        used = [params[0], params[1]] if step < 3 else params[:3]
        if step == 5:
            params[0].grad = None
            used = params[1:3]
        if step == 6:
            optimizer.add_param_group({"params": [params[3], late], "lr": 0.05})
        if step >= 6:
            used = [*params, late]
        loss(used).backward()
        if step == 4:
            params[1].grad = params[1].grad * 2
        if step == 7:
            params[2].data = params[2].data * 0.5
        optimizer.step()
    return [*params, late]


@pytest.mark.parametrize("name", TWINS)
def test_parameters_can_be_added_and_gradients_replaced(name):
    fused, plain = TWINS[name]
    assert_same(uneven(fused, "npu"), uneven(plain, "cpu"))


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_cleared_state_is_initialised_again(name):
    results = []
    for make, device in zip(TWINS[name], ("npu", "cpu"), strict=True):
        params, optimizer = train(make, device, count=3)
        optimizer.state.clear()
        loss(params).backward()
        optimizer.step()
        results.append(params)
    assert_same(*results)


def test_layouts_of_parameters_are_kept():
    weight = torch.randn(4, 3, 2, 2)
    results = []
    for device, make in (("npu", TWINS["adam"][0]), ("cpu", TWINS["adam"][1])):
        module = torch.nn.Conv2d(3, 4, 2, bias=False)
        module.weight.data = weight.clone()
        module = module.to(device, memory_format=torch.channels_last)
        optimizer = make(module.parameters())
        for _ in range(2):
            module(torch.ones(1, 3, 4, 4, device=device)).sum().backward()
            optimizer.step()
        results.append(module.weight)
    assert_same(*results)
    assert results[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", FUSED)
def test_dtypes_have_combined_tensors_of_their_own(name, dtype):
    params = [*parameters("npu"), *parameters("npu", dtype)]
    alone = {one: train(FUSED[name], "npu", count=3, dtype=one)[0] for one in (torch.float32, dtype)}
    optimizer = FUSED[name](params)
    for _ in range(3):
        optimizer.zero_grad()
        loss(params).backward()
        optimizer.step()
    # In float16 eps may round to zero, and a variance may be negative.
    for one, other in zip(params, [*alone[torch.float32], *alone[dtype]], strict=True):
        torch.testing.assert_close(one, other, equal_nan=True)
    kinds = [None if each is None else each.dtype for each in optimizer.get_combined_params()]
    assert kinds == ([torch.float32, dtype] if dtype == torch.float16 else [torch.float32, None, dtype])


@pytest.mark.parametrize("norm_type", [2, 1, float("inf")])
def test_gradients_are_clipped_together(norm_type):
    results = []
    for device in ("npu", "cpu"):
        params = parameters(device)
        loss(params).backward()
        if device == "npu":
            norm = optim.NpuFusedSGD(params, lr=0.1).clip_grad_norm_fused_(0.5, norm_type)
        else:
            norm = torch.nn.utils.clip_grad_norm_(params, 0.5, norm_type)
        results.append([norm, *[param.grad for param in params]])
    assert_same(*results)


def test_clipping_without_gradients_is_zero():
    assert optim.NpuFusedSGD(parameters("npu"), lr=0.1).clip_grad_norm_fused_(1.0) == 0


def test_a_closure_computes_the_loss():
    params = parameters("npu")
    optimizer = FUSED["sgd"](params)

    def closure():
        optimizer.zero_grad()
        result = loss(params)
        result.backward()
        return result

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first


def scaled(make, device):
    params = parameters(device)
    optimizer, scaler = make(params), torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
    for step in range(5):
        optimizer.zero_grad(set_to_none=False)
        factor = float("inf") if step == 2 else 1.0
        scaler.scale(loss(params) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
    return [*params, torch.tensor(scaler.get_scale(), device=device)]


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_grad_scaler_skips_steps_with_infinite_gradients(name):
    fused, plain = TWINS[name]
    assert_same(scaled(fused, "npu"), scaled(plain, "cpu"))


def test_an_optimizer_may_be_made_before_the_model_moves():
    model = torch.nn.Linear(3, 2)
    optimizer = FUSED["adam"](model.parameters())
    optimizer.zero_grad()
    model.npu()(torch.ones(1, 3, device="npu")).sum().backward()
    optimizer.step()
    assert len(optimizer.state) == 2 and model.weight.is_npu


def test_a_scheduler_changes_the_rate():
    x = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = optim.NpuFusedSGD([x], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
        scheduler.step()
    assert x.tolist() == [-0.5, -0.5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.NpuFusedSGD(p), "needs a learning rate"),
        (lambda p: optim.NpuFusedSGD(p, lr=-1), "lr must be a number that is not negative, not -1"),
        (lambda p: optim.NpuFusedSGD(p, lr=1, nesterov=True), "nesterov needs a momentum"),
        (lambda p: optim.NpuFusedAdam(p, betas=(0.9, 1.0)), r"betas must be at least 0 and less than 1, not \(0.9, 1.0\)"),
        (lambda p: optim.NpuFusedAdamW(p, eps=-1), "NpuFusedAdamW: eps must be not negative"),
        (lambda p: optim.NpuFusedBertAdam(p, lr=1, schedule="cosine"), "schedule must be one of warmup_cosine, "),
        (lambda p: optim.NpuFusedBertAdam(p, lr=1, warmup=1.5), "warmup must be -1"),
    ],
)
def test_bad_options_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make(parameters("npu"))


def test_tensors_that_cannot_be_combined_are_named():
    mixed = [*parameters("npu"), *parameters("cpu")]
    for param in mixed:
        param.grad = torch.ones_like(param)
    with pytest.raises(RuntimeError, match=r"some on npu:0 and cpu: move the model by \.npu\(\)"):
        FUSED["sgd"](mixed).step()
    with pytest.raises(NotImplementedError, match="use one of the optimizers"):
        params = parameters("npu")
        loss(params).backward()
        optim.NpuFusedOptimizerBase(params, {"lr": 0.1}).step()
