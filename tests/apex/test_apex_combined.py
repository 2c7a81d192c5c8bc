"""combine_grad: bit-equal to training without it, whatever programs do with their gradients."""

import pytest
import torch
from apex import amp, optimizers
from apex.contrib.combine_tensors import combine_npu, get_part_combined_tensor, is_combined_tensor_valid

from tests.apex.training import all_equal, backward, batch, initialized, masters, net, scale, sgd, train


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def fused_sgd(model):
    return optimizers.NpuFusedSGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)


def fused_adam(model):
    return optimizers.NpuFusedAdam(model.parameters(), lr=0.01)


def keep(model, optimizer):
    optimizer.zero_grad()


def set_to_none(model, optimizer):
    optimizer.zero_grad(set_to_none=True)


def set_to_zero(model, optimizer):
    optimizer.zero_grad(set_to_none=False)


def by_the_model(model, optimizer):
    model.zero_grad()


def replace(model, optimizer):
    for param in model.parameters():
        param.grad = torch.full_like(param, 0.01)


def partly(model, optimizer):
    optimizer.zero_grad(set_to_none=False)
    model.fc.weight.grad = None
    model.norm.weight.grad = torch.ones_like(model.norm.weight)


def nothing(model, optimizer):
    pass


CLEARINGS = [keep, set_to_none, set_to_zero, by_the_model, replace, partly, nothing]


def run(level, device="npu", optimizer=sgd, clear=keep, passes=1, delay=False, overflow_at=-1, **options):
    model, optimizer = initialized(device, optimizer, opt_level=level, dynamic_init_scale=256.0, **options)
    for step in range(5):
        for index in range(passes):
            x, y = batch(device, seed=step + index)
            loss = torch.nn.functional.cross_entropy(model(x).float(), y)
            loss = loss * (float("inf") if step == overflow_at else 1)
            with amp.scale_loss(loss, optimizer, delay_unscale=delay and index < passes - 1) as scaled_loss:
                scaled_loss.backward()
        optimizer.step()
        clear(model, optimizer)
    result = masters(optimizer), scale()
    amp.uninitialize()
    return result


def assert_equal_to_separate(*args, **options):
    separate, combined = run(*args, **options), run(*args, combine_grad=True, **options)
    assert all_equal(separate[0], combined[0]) and separate[1] == combined[1]


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("clear", CLEARINGS)
def test_any_way_to_clear_gradients(level, clear):
    assert_equal_to_separate(level, clear=clear)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("optimizer", [adam, fused_sgd, fused_adam])
def test_optimizers(level, optimizer):
    assert_equal_to_separate(level, optimizer=optimizer)
    assert_equal_to_separate(level, optimizer=optimizer, passes=2, clear=set_to_none)


@pytest.mark.parametrize("level", ["O1", "O2"])
@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("clear", [keep, set_to_zero])
def test_accumulation(level, delay, clear):
    assert_equal_to_separate(level, passes=3, delay=delay, clear=clear)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_overflows_and_the_cpu(level):
    assert_equal_to_separate(level, overflow_at=1)
    assert_equal_to_separate(level, device="cpu", passes=2)


def test_gradients_of_a_second_order_are_combined_again(capsys):
    model = net()
    model, optimizer = amp.initialize(
        model, sgd(model), opt_level="O1", combine_grad=True, check_combined_tensors=True, verbosity=1
    )
    x, _y = batch()
    with amp.scale_loss(model(x).float().square().mean(), optimizer) as scaled_loss:
        scaled_loss.backward(create_graph=True)
    assert "Combined grad has been destroyed and will be recombined" in capsys.readouterr().out
    (flat,) = optimizer.get_optimizer_combined_grads()
    assert is_combined_tensor_valid(flat, [p.grad for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_combined_gradients_can_be_asked_for(level):
    model, optimizer = initialized(opt_level=level, combine_grad=True)
    backward(model, optimizer, *batch())
    grads = [param.grad for param in amp.master_params(optimizer) if param.grad is not None]
    flats = optimizer.get_optimizer_combined_grads()
    assert sum(flat.numel() for flat in flats) == sum(param.numel() for param in model.parameters())
    assert all(any(is_combined_tensor_valid(flat, [grad]) for flat in flats) for grad in grads)
    for flat in flats:
        flat.zero_()
    assert not any(grad.any() for grad in grads)
    assert {flat.dtype for flat in optimizer.get_model_combined_grads()} == {p.dtype for p in model.parameters()}
    assert optimizer.get_optimizer_combined_params() == []


def test_clipping_of_combined_gradients():
    model, optimizer = initialized(opt_level="O2", combine_grad=True)
    backward(model, optimizer, *batch())
    norm = optimizer.clip_optimizer_grad_norm_fused(0.1)
    (total,) = [sum(p.grad.square().sum() for p in amp.master_params(optimizer) if p.grad is not None).sqrt()]
    assert norm > 0.1 and total.item() == pytest.approx(0.1, rel=1e-3)


def test_unscaling_takes_fewer_launches():
    def launches(combine):
        model, optimizer = initialized(opt_level="O2", combine_grad=combine)
        train(model, optimizer, steps=1)
        with torch.autograd.profiler.profile() as profile:
            x, y = batch()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
        amp.uninitialize()
        return sum("foreach" in event.name or event.name == "aten::empty_like" for event in profile.function_events)

    assert launches(True) < launches(False)


def test_channels_last_weights_keep_their_layout():
    def run_channels_last(combine):
        model = net().to(memory_format=torch.channels_last)
        model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", combine_grad=combine, verbosity=0)
        train(model, optimizer, steps=3)
        amp.uninitialize()
        return masters(optimizer)

    assert all_equal(run_channels_last(True), run_channels_last(False))


def test_combine_npu():
    a, b = torch.arange(6.0).view(2, 3).npu(), torch.ones(4).npu()
    flat = combine_npu([a, b])
    assert is_combined_tensor_valid(flat, [a, b]) and flat.cpu().tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 1, 1]
    get_part_combined_tensor(flat, 6, 4).zero_()
    assert not b.any() and a.sum() == 15


@pytest.mark.parametrize("combine", [False, True])
def test_sparse_gradients_are_unscaled_and_combined_ones_become_dense(combine):
    for device in ("cpu", "npu"):
        model = torch.nn.Embedding(5, 3, sparse=True).to(device)
        model, optimizer = amp.initialize(
            model, torch.optim.SGD(model.parameters(), lr=1.0), opt_level="O1", combine_grad=combine, verbosity=0
        )
        before = model.weight.detach().clone()
        for _ in range(2):
            with amp.scale_loss(model(torch.tensor([1, 1, 3]).to(device)).sum(), optimizer) as scaled_loss:
                scaled_loss.backward()
        assert model.weight.grad.is_sparse is not combine
        optimizer.step()
        change = (before - model.weight.detach()).cpu()[:, 0]
        torch.testing.assert_close(change, torch.tensor([0.0, 4.0, 0.0, 2.0, 0.0]))
        amp.uninitialize()
