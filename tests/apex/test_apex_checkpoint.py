"""Checkpoints of model, optimizer and amp: a resumed training is bit-equal to one that went on."""

import io
import pickle

import pytest
import torch
from apex import amp, optimizers

from tests.apex.training import all_equal, batch, initialized, masters, net, scale, sgd, train


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-4)


def fused(model):
    return optimizers.NpuFusedSGD(model.parameters(), lr=0.05, momentum=0.9)


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
@pytest.mark.parametrize("make", [sgd, adam, fused])
def test_a_resumed_training_is_bit_equal(level, make, tmp_path):
    options = {"opt_level": level, "scale_window": 3}
    options["combine_grad"] = True if level in ("O1", "O2") else None
    model, optimizer = initialized(optimizer=make, **options)
    train(model, optimizer, steps=5)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "amp": amp.state_dict()}
    torch.save(saved, tmp_path / "checkpoint.pth")
    expected = train(model, optimizer, steps=5, first=5), masters(optimizer), amp.state_dict()
    amp.uninitialize()

    model, optimizer = initialized(optimizer=make, **options)
    checkpoint = torch.load(tmp_path / "checkpoint.pth", map_location="npu:0")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    amp.load_state_dict(checkpoint["amp"])
    got = train(model, optimizer, steps=5, first=5), masters(optimizer), amp.state_dict()
    assert got[0] == expected[0] and all_equal(got[1], expected[1]) and got[2] == expected[2]


def test_the_state_has_the_published_names():
    initialized(opt_level="O2", num_losses=2, loss_scale="dynamic")
    assert amp.state_dict() == {
        "loss_scaler0": {"loss_scale": 65536.0, "unskipped": 0},
        "loss_scaler1": {"loss_scale": 65536.0, "unskipped": 0},
    }
    assert amp.state_dict({"mine": 1}).keys() == {"mine", "loss_scaler0", "loss_scaler1"}


def test_checkpoints_of_o2_open_without_amp():
    model, optimizer = initialized(opt_level="O2")
    train(model, optimizer, steps=3)
    plain = net("cpu")
    plain.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
    assert all_equal([param.detach() for param in plain.parameters()], masters(optimizer))
    its = sgd(plain)
    its.load_state_dict(optimizer.state_dict())
    assert {value["momentum_buffer"].dtype for value in its.state.values()} == {torch.float32}


def test_loading_float32_weights_reaches_the_masters():
    wanted = net("cpu", seed=7)
    model, optimizer = initialized(opt_level="O2")
    model.load_state_dict(wanted.state_dict())
    assert all_equal(masters(optimizer), [param.detach() for param in wanted.parameters()])
    assert model.fc.weight.cpu().equal(wanted.fc.weight.half())


def test_a_failed_load_keeps_the_scales():
    initialized(opt_level="O1", num_losses=2)
    good = {"loss_scale": 4.0, "unskipped": 1}
    for bad in ({"loss_scale": float("nan"), "unskipped": 1}, {"loss_scale": 4.0}, {"loss_scale": -2.0, "unskipped": 0}):
        with pytest.raises((RuntimeError, ValueError)):
            amp.load_state_dict({"loss_scaler0": good, "loss_scaler1": bad})
    assert scale(0) == scale(1) == 2.0**16


def test_a_whole_model_can_be_pickled():
    model, _ = initialized(opt_level="O2")
    x, _ = batch()
    expected = model(x)
    copied = pickle.loads(pickle.dumps(model))
    copied.eval(), model.eval()
    assert copied(x).equal(model(x)) and copied(x).dtype == expected.dtype
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    assert torch.load(buffer, weights_only=False)(x).equal(model(x))
