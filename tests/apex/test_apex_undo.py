"""amp.uninitialize: torch, models and optimizers are as before amp.initialize, with the trained values."""

import pytest
import torch
from apex import amp
from apex.amp import casts, lists
from torch.nn import functional

from tests.apex.training import all_equal, batch, initialized, masters, net, scale, sgd, train

OWNERS = (torch, functional, torch.Tensor, torch.autograd, torch._VF, torch.autograd.function.BackwardCFunction)


def snapshot():
    return [dict(vars(owner)) for owner in OWNERS]


def hooks(model):
    names = ("_forward_pre_hooks", "_forward_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks")
    return [len(getattr(module, name)) for module in model.modules() for name in names]


@pytest.mark.parametrize("device", ["npu", "cpu"])
@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_everything_is_put_back(level, device):
    amp.register_half_function(torch, "tanh")
    before, names = snapshot(), lists.functional_overrides.FP32_FUNCS[:]
    model = net(device)
    optimizer = sgd(model)
    methods, its_hooks, attributes = dict(vars(optimizer)).keys(), hooks(model), vars(model).keys() | {"conv_dtype"}
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, cast_model_outputs=torch.float32, verbosity=0)
    train(model, optimizer, steps=2, device=device)
    trained = masters(optimizer)
    assert snapshot() != before or level != "O1"
    amp.uninitialize()
    assert snapshot() == before and names == lists.functional_overrides.FP32_FUNCS
    assert hooks(model) == its_hooks and vars(model).keys() == attributes
    assert vars(optimizer).keys() - {"_opt_called"} == methods
    assert optimizer.param_groups[0]["params"] == list(model.parameters())
    assert set(map(id, optimizer.state)) <= set(map(id, model.parameters()))
    assert {param.dtype for param in (*model.parameters(), *model.norm.buffers())} == {torch.float32, torch.int64}
    assert all_equal([param.detach().cpu() for param in model.parameters()], [value.float() for value in trained])
    assert model(batch(device)[0]).dtype == torch.float32
    assert not torch.is_autocast_enabled(device)
    assert not hasattr(amp._amp_state, "opt_properties")


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_training_goes_on_in_float32_and_amp_can_start_again(level):
    model, optimizer = initialized(opt_level=level, combine_grad=True)
    train(model, optimizer, steps=2)
    amp.uninitialize()
    x, y = batch()
    for _ in range(2):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    amp.initialize(model, optimizer, opt_level=level, loss_scale=64.0, verbosity=0)
    train(model, optimizer, steps=2)
    assert scale() == 64.0


def test_a_scheduler_made_under_amp_still_steps_the_optimizer():
    model, optimizer = initialized(opt_level="O2")
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    amp.uninitialize()
    before = masters(optimizer)
    x, y = batch()
    functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    scheduler.step()
    assert not all_equal(masters(optimizer), before)


def test_functions_that_others_replaced_later_are_left_to_them(monkeypatch):
    monkeypatch.setattr(torch, "exp", torch.exp)  # put back at the end
    initialized("cpu", opt_level="O1")
    inner = torch.exp
    torch.exp = mine = lambda *args: inner(*args)
    amp.uninitialize()
    assert torch.exp is mine
    with torch.autocast("cpu", dtype=torch.float16):
        assert torch.exp(torch.ones(2).half()).dtype == torch.float16


def test_undo_without_initialize_does_nothing():
    before = snapshot()
    amp.uninitialize()
    amp.uninitialize()
    assert snapshot() == before


def test_models_are_not_kept_alive():
    import gc
    import weakref

    model, optimizer = initialized(opt_level="O2")
    train(model, optimizer, steps=1)
    alive = weakref.ref(model)
    del model, optimizer
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_an_initialize_that_fails_is_undone(level, monkeypatch):
    def fails(*args):
        raise KeyError("from the program")

    model = net()
    optimizer = sgd(model)
    weight, loss = model.conv.weight.detach().clone(), functional.cross_entropy
    owner = type("Owner", (), {"call": staticmethod(torch.abs)})
    amp.register_half_function(owner, "call")
    call = owner.call
    handle = optimizer.register_load_state_dict_pre_hook(fails)
    with monkeypatch.context() as patched, pytest.raises(KeyError):
        patched.setattr(casts.Casts, "_patch_engine", fails)
        amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    handle.remove()
    assert model.conv.weight.equal(weight) and "forward" not in vars(model)
    assert "step" not in vars(optimizer) and optimizer.param_groups[0]["params"][1] is list(model.parameters())[1]
    assert functional.cross_entropy is loss and owner.call is call and not torch.is_autocast_enabled("npu")
    model, optimizer = amp.initialize(model, optimizer, opt_level=level, verbosity=0)
    train(model, optimizer, steps=1)
