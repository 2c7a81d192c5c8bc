"""amp.scale_loss: the algorithm of the dynamic scale, accumulation, several losses, closures and exceptions."""

import pytest
import torch
from apex import amp
from torch.nn import functional

from tests.apex.training import all_equal, backward, batch, initialized, masters, net, scale, sgd, train


def overflow(model, optimizer, **options):
    """A backward pass whose gradients are infinite."""
    x, y = batch()
    loss = functional.cross_entropy(model(x).float(), y) * float("inf")
    with amp.scale_loss(loss, optimizer, **options) as scaled_loss:
        scaled_loss.backward()


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_the_dynamic_scale_follows_the_published_algorithm(level, device):
    model, optimizer = initialized(
        device, opt_level=level, dynamic_init_scale=1024, scale_window=3, min_loss_scale=256, max_loss_scale=2048
    )
    expected, unskipped, before = 1024.0, 0, masters(optimizer)
    for step, overflows in enumerate([0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]):
        if device == "cpu":
            x, y = batch("cpu")
            loss = functional.cross_entropy(model(x).float(), y) * (float("inf") if overflows else 1)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        elif overflows:
            overflow(model, optimizer)
        else:
            backward(model, optimizer, *batch())
        optimizer.step()
        optimizer.zero_grad()
        if overflows:
            expected, unskipped = max(expected / 2, 256), 0
        else:
            unskipped += 1
            if unskipped == 3:
                expected, unskipped = min(expected * 2, 2048), 0
        assert scale() == expected, step
        assert all_equal(masters(optimizer), before) == bool(overflows), step
        before = masters(optimizer)


def test_growth_and_backoff_factors():
    model, optimizer = initialized(
        opt_level="O2", dynamic_init_scale=100, scale_growth_factor=3.0, scale_backoff_factor=0.1, scale_window=1
    )
    backward(model, optimizer, *batch())
    assert scale() == 300
    overflow(model, optimizer)
    assert scale() == pytest.approx(30)


def test_a_constant_scale_skips_nothing():
    model, optimizer = initialized(opt_level="O2", loss_scale=8.0)
    overflow(model, optimizer)
    optimizer.step()
    assert scale() == 8.0
    assert any(not param.isfinite().all() for param in masters(optimizer))


def test_a_skipped_step_says_so_and_the_next_one_works(capsys):
    model = net()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O1")
    before = masters(optimizer)
    overflow(model, optimizer)
    optimizer.step()
    assert "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0" in capsys.readouterr().out
    assert all_equal(masters(optimizer), before)
    optimizer.zero_grad()
    backward(model, optimizer, *batch())
    optimizer.step()
    assert not all_equal(masters(optimizer), before)


def test_the_block_gives_the_loss_times_the_scale_and_unscaled_gradients():
    model, optimizer = initialized(opt_level="O1", loss_scale=64.0)
    x, y = batch()
    loss = functional.cross_entropy(model(x), y)
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss.item() == pytest.approx(64 * loss.item())
        scaled_loss.backward(retain_graph=True)
    (expected,) = torch.autograd.grad(loss, [model.fc.bias])
    torch.testing.assert_close(model.fc.bias.grad, expected, rtol=1e-3, atol=1e-5)


def accumulated(level, delay, combine=False, fp32_first=False, device="npu"):
    model, optimizer = initialized(device, opt_level=level, loss_scale=128.0, combine_grad=combine)
    for index in range(3):
        backward(model, optimizer, *batch(device, seed=index), delay_unscale=delay and index < 2)
    result = [None if param.grad is None else param.grad.cpu().clone() for param in amp.master_params(optimizer)]
    optimizer.step()
    amp.uninitialize()
    return result, masters(optimizer)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_gradients_of_several_passes_add_up(level):
    grads, params = accumulated(level, delay=False)
    model = net("cpu")
    for index in range(3):
        x, y = batch("cpu", seed=index)
        functional.cross_entropy(model(x), y).backward()
    for got, param in zip(grads, model.parameters(), strict=True):
        assert (got is None) == (param.grad is None)
        if got is not None:
            torch.testing.assert_close(got, param.grad, rtol=0.05, atol=5e-3)
    delayed, delayed_params = accumulated(level, delay=True)
    for got, other in zip(grads, delayed, strict=True):
        assert got is other is None or torch.allclose(got, other, rtol=0.02, atol=2e-3)
    for got, other in zip(params, delayed_params, strict=True):
        torch.testing.assert_close(got, other, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_an_overflow_before_a_delayed_unscale_skips_the_step(level):
    model, optimizer = initialized(opt_level=level)
    before = masters(optimizer)
    overflow(model, optimizer, delay_unscale=True)
    backward(model, optimizer, *batch())
    optimizer.step()
    assert scale() == 2.0**15 and all_equal(masters(optimizer), before)


def test_networks_against_each_other_with_three_losses():
    def run(device, enabled):
        torch.manual_seed(0)
        discriminator, generator = torch.nn.Linear(8, 1).to(device), torch.nn.Linear(4, 8).to(device)
        networks, optimizers = [discriminator, generator], []
        for network in networks:
            optimizers.append(torch.optim.Adam(network.parameters(), lr=0.01))
        (discriminator, generator), (of_d, of_g) = amp.initialize(
            networks, optimizers, opt_level="O1", num_losses=3, dynamic_init_scale=128, enabled=enabled, verbosity=0
        )
        results = []
        for step in range(4):
            real = torch.ones(4, 8).to(device) * step
            noise = torch.linspace(-1, 1, 16).view(4, 4).to(device)
            of_d.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(discriminator(real), torch.ones(4, 1, device=device))
            with amp.scale_loss(loss, of_d, loss_id=0) as scaled_loss:
                scaled_loss.backward()
            fake = generator(noise)
            loss = functional.binary_cross_entropy_with_logits(discriminator(fake.detach()), torch.zeros(4, 1, device=device))
            with amp.scale_loss(loss, of_d, loss_id=1) as scaled_loss:
                scaled_loss.backward()
            of_d.step()
            of_g.zero_grad()
            loss = functional.binary_cross_entropy_with_logits(discriminator(fake), torch.ones(4, 1, device=device))
            with amp.scale_loss(loss, of_g, loss_id=2) as scaled_loss:
                scaled_loss.backward()
            of_g.step()
            results.append(loss.item())
        amp.uninitialize()
        return torch.tensor(results)

    torch.testing.assert_close(run("npu", True), run("cpu", False), rtol=0.01, atol=1e-3)
    torch.testing.assert_close(run("npu", True), run("cpu", True), rtol=2e-3, atol=1e-3)


def test_losses_have_scales_of_their_own():
    model, optimizer = initialized(opt_level="O2", num_losses=2)
    overflow(model, optimizer, loss_id=1)
    assert (scale(0), scale(1)) == (2.0**16, 2.0**15)


def test_a_list_of_optimizers_is_skipped_together():
    models = [net(), net(seed=1)]
    _, optimizers = amp.initialize(models, [sgd(model) for model in models], opt_level="O2", verbosity=0)
    x, _y = batch()
    before = [masters(optimizer) for optimizer in optimizers]
    loss = models[0](x).sum() + models[1](x).sum() * float("inf")
    with amp.scale_loss(loss, optimizers) as scaled_loss:
        scaled_loss.backward()
    for optimizer, old in zip(optimizers, before, strict=True):
        optimizer.step()
        assert all_equal(masters(optimizer), old)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_step_with_a_closure(level):
    def run(use_closure):
        model, optimizer = initialized(opt_level=level)
        for index in range(3):

            def closure(index=index):
                optimizer.zero_grad()
                return backward(model, optimizer, *batch(seed=index))

            loss = optimizer.step(closure) if use_closure else (closure(), optimizer.step())[0]
            assert isinstance(loss, float)
        amp.uninitialize()
        return masters(optimizer)

    assert all_equal(run(True), run(False))


def test_an_overflow_in_a_closure_skips_the_step():
    model, optimizer = initialized(opt_level="O2")
    before = masters(optimizer)
    optimizer.step(lambda: overflow(model, optimizer))
    assert all_equal(masters(optimizer), before)
    optimizer.zero_grad()
    optimizer.step(lambda: backward(model, optimizer, *batch()))
    assert not all_equal(masters(optimizer), before)


def test_an_optimizer_that_calls_its_closure_again_sees_its_own_parameters():
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", loss_scale=128.0, verbosity=0)
    seen = []

    def closure():
        optimizer.zero_grad()
        seen.append(backward(model, optimizer, *batch()))
        return torch.tensor(seen[-1])

    optimizer.step(closure)
    assert len(seen) == 4 and seen[-1] < seen[0]


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("combine", [False, True])
def test_an_exception_in_the_block_leaves_the_gradients_of_before(level, combine):
    model, optimizer = initialized(opt_level=level, combine_grad=combine)
    backward(model, optimizer, *batch())
    grads = [None if param.grad is None else param.grad.clone() for param in amp.master_params(optimizer)]
    loss = model(batch()[0]).sum()
    with pytest.raises(ZeroDivisionError), amp.scale_loss(loss, optimizer) as scaled_loss:
        scaled_loss.backward()
        1 / 0  # noqa: B018
    for param, grad in zip(amp.master_params(optimizer), grads, strict=True):
        assert param.grad is grad is None or param.grad.equal(grad)
    assert scale() == 2.0**16
    optimizer.step()
    optimizer.zero_grad()
    assert train(model, optimizer, steps=2)


def test_schedulers_see_every_step():
    model = net()
    optimizer = sgd(model)
    early = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2", verbosity=0)
    late = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    overflow(model, optimizer)
    optimizer.step()
    early.step(), late.step()
    before = masters(optimizer)
    optimizer.zero_grad()
    backward(model, optimizer, *batch())
    optimizer.step()
    assert not all_equal(masters(optimizer), before)
    assert optimizer.param_groups[0]["lr"] == 0.0125


def test_parameters_can_be_added_after_initialize():
    model, optimizer = initialized(opt_level="O2")
    more = torch.nn.Linear(10, 10).npu()
    optimizer.add_param_group({"params": more.half().parameters(), "lr": 0.5})
    x, y = batch()
    before = more.weight.detach().clone()
    with amp.scale_loss(functional.cross_entropy(more(model(x).half()).float(), y), optimizer) as scaled_loss:
        scaled_loss.backward()
    optimizer.step()
    assert optimizer.param_groups[1]["params"][0].dtype == torch.float32
    assert more.weight.dtype == torch.float16 and not more.weight.equal(before)


def test_clipping_of_master_gradients():
    model, optimizer = initialized(opt_level="O2")
    backward(model, optimizer, *batch())
    norm = torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 0.1)
    after = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in amp.master_params(optimizer) if p.grad is not None]))
    assert norm > 0.1 and after.item() == pytest.approx(0.1, rel=1e-3)


def test_a_scale_that_overflows_for_ever_can_be_inverted_and_saved():
    model, optimizer = initialized(opt_level="O1", dynamic_init_scale=2.0**-125)
    for _ in range(4):
        optimizer.zero_grad()
        with amp.scale_loss(model(batch()[0]).float().sum() * float("nan"), optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
    assert scale() == 2.0**-126
    amp.load_state_dict(amp.state_dict())
    train(model, optimizer, steps=1)
    assert scale() == 2.0**-126


def test_complex_parameters_are_unscaled():
    model = net()
    model.phase = torch.nn.Parameter(torch.tensor([1.0 + 2.0j, 3.0 - 1.0j], device="npu"))
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O1", verbosity=0)
    with amp.scale_loss((model.phase.abs() ** 2).sum(), optimizer) as scaled_loss:
        scaled_loss.backward()
    torch.testing.assert_close(model.phase.grad.cpu(), 2 * model.phase.detach().cpu())
