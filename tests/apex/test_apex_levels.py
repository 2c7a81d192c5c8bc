"""amp.initialize with O0 to O3: training like on the CPU and like in float32, and dtypes."""

import copy

import pytest
import torch
from apex import amp

from tests.apex.training import all_equal, batch, initialized, masters, net, scale, sgd, train
from tests.support import two_devices


def losses(device, **options):
    model, optimizer = initialized(device, **options)
    result = train(model, optimizer, steps=8, device=device)
    amp.uninitialize()
    return torch.tensor(result)


@pytest.mark.parametrize("level", ["O0", "O1", "O2", "O3"])
def test_training_follows_the_cpu_and_float32(level):
    npu, cpu, single = losses("npu", opt_level=level), losses("cpu", opt_level=level), losses("cpu", opt_level="O0")
    torch.testing.assert_close(npu, cpu, rtol=1e-5 if level == "O0" else 5e-3, atol=1e-3)
    torch.testing.assert_close(npu, single, rtol=0.02, atol=5e-3)
    assert npu[-1] < npu[0] / 2


@pytest.mark.parametrize("loss_scale", [128.0, "128", 1024, "dynamic", -1, -1.0, None])
def test_training_does_not_depend_on_the_scale(loss_scale):
    result = losses("npu", opt_level="O2", loss_scale=loss_scale)
    torch.testing.assert_close(result, losses("npu", opt_level="O2", loss_scale=1.0), rtol=0.01, atol=2e-3)


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_o1_casts_functions_and_keeps_float32_weights(device):
    model, _optimizer = initialized(device, opt_level="O1")
    x, y = batch(device)
    out = model(x)
    assert model.conv_dtype == out.dtype == torch.float16
    assert torch.nn.functional.cross_entropy(out, y).dtype == out.softmax(1).log().dtype == torch.float32
    assert {param.dtype for param in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("level", "options", "conv", "norm", "master"),
    [
        ("O0", {}, torch.float32, torch.float32, torch.float32),
        ("O2", {}, torch.float16, torch.float32, torch.float32),
        ("O2", {"keep_batchnorm_fp32": "False"}, torch.float16, torch.float16, torch.float32),
        ("O2", {"master_weights": False}, torch.float16, torch.float32, torch.float16),
        ("O2", {"cast_model_type": torch.bfloat16}, torch.bfloat16, torch.float32, torch.float32),
        ("O3", {}, torch.float16, torch.float16, torch.float16),
        ("O3", {"keep_batchnorm_fp32": True}, torch.float16, torch.float32, torch.float16),
    ],
)
def test_dtypes_of_cast_models(level, options, conv, norm, master):
    model, optimizer = initialized(opt_level=level, **options)
    x, _ = batch()
    assert model(x).dtype == torch.float32
    assert model.conv_dtype == model.conv.weight.dtype == model.fc.bias.dtype == conv
    assert model.norm.weight.dtype == model.norm.running_mean.dtype == norm
    assert next(amp.master_params(optimizer)).dtype == master
    assert {tensor.dtype for tensor in model.state_dict().values()} == {torch.float32, torch.int64}
    assert model.norm.num_batches_tracked.dtype == torch.int64


def test_cast_model_outputs():
    for level in ("O1", "O2"):
        model, _ = initialized(opt_level=level, cast_model_outputs=torch.float64)
        assert model(batch()[0]).dtype == torch.float64
        amp.uninitialize()


def test_masters_keep_the_values_that_float16_rounds():
    before = [param.detach().cpu().clone() for param in net().parameters()]
    model, optimizer = initialized(opt_level="O2")
    assert all_equal(masters(optimizer), before)
    assert model.conv.weight.float().cpu().ne(before[0]).any() or model.conv.weight.cpu().equal(before[0].half())
    train(model, optimizer, steps=2)
    for param, master in zip(model.parameters(), masters(optimizer), strict=True):
        assert param.detach().cpu().equal(master.to(param.dtype))


def test_inputs_of_cast_models_are_cast_in_any_structure():
    class Takes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, batch, *, extra):
            return {"a": batch["a"][0] * self.weight, "n": batch["n"], "text": batch["text"], "extra": (extra, 3)}

    model = Takes().npu()
    amp.initialize(model, opt_level="O3", verbosity=0)
    ones = torch.ones(2).npu()
    out = model({"a": [ones], "n": torch.arange(2).npu(), "text": "x"}, extra=ones)
    assert [out["a"].dtype, out["n"].dtype, out["text"]] == [torch.float32, torch.int64, "x"]
    assert out["extra"][0].dtype == torch.float32 and out["extra"][1] == 3
    assert model.forward({"a": [ones], "n": ones, "text": ""}, extra=ones)["a"].dtype == torch.float32


def test_several_models_and_optimizers_come_back_in_lists():
    models = [net(), net()]
    optimizers = [sgd(model) for model in models]
    got_models, got_optimizers = amp.initialize(models, optimizers, opt_level="O2", num_losses=3, verbosity=0)
    assert got_models is models and got_optimizers is optimizers
    assert len(amp._amp_state.loss_scalers) == 3
    one = net()
    assert amp.initialize(one, opt_level="O2", verbosity=0) is one


def test_disabled_amp_changes_nothing():
    model = net()
    optimizer = sgd(model)
    assert amp.initialize(model, optimizer, enabled=False) == (model, optimizer)
    loss = model(batch()[0]).sum()
    with amp.scale_loss(loss, optimizer) as scaled_loss:
        assert scaled_loss is loss
    assert amp.state_dict() == {}
    amp.load_state_dict({})
    with amp.disable_casts():
        assert model(batch()[0]).dtype == torch.float32


def test_a_copy_of_a_cast_model_is_independent():
    model, _optimizer = initialized(opt_level="O2")
    twin = copy.deepcopy(model)
    with torch.no_grad():
        twin.fc.weight.zero_()
    x, _ = batch()
    assert model(x).abs().sum() > 0
    assert twin(x).equal(twin.fc.bias.float().expand(16, 10))
    assert twin.state_dict()["fc.weight"].abs().sum() == 0


@two_devices
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_data_parallel_replicas_are_cast(level):
    model, optimizer = initialized(opt_level=level, combine_grad=True)
    x, y = batch()
    model.eval()
    expected = model(x)
    out = torch.nn.DataParallel(model, device_ids=[0, 1])(x)
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
    with amp.scale_loss(torch.nn.functional.cross_entropy(out.float(), y), optimizer) as scaled_loss:
        scaled_loss.backward()
    before = masters(optimizer)
    optimizer.step()
    assert not all_equal(masters(optimizer), before)


def test_options_are_printed_once_and_readable(capsys):
    model = net()
    amp.initialize(model, sgd(model), opt_level="O2", loss_scale=128.0, combine_grad=True)
    printed = capsys.readouterr().out
    assert "Selected optimization level O2" in printed and "loss_scale             : 128.0" in printed
    assert amp._amp_state.opt_properties.opt_level == "O2" and scale() == 128.0
    assert amp.__dict__["initialize"] is amp.initialize
