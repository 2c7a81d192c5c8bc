"""Bad input of apex gets one sentence, and leaves models and optimizers as they were."""

import pytest
import torch
from apex import amp
from apex.fp16_utils import FP16_Optimizer

from tests.apex.training import all_equal, backward, batch, initialized, net, sgd


def refuses(error, text, *args, **options):
    with pytest.raises(error, match=text) as caught:
        amp.initialize(*args, verbosity=0, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("level", ["O4", "01", "o1", 1, ""])
def test_unknown_levels(level):
    refuses(RuntimeError, "use 'O0', 'O1', 'O2' or 'O3'", net(), opt_level=level)


def test_unknown_options():
    refuses(TypeError, "no option 'combine_grads': did you mean 'combine_grad'", net(), combine_grads=True)
    refuses(TypeError, "no option 'speed': use one of enabled, opt_level", net(), speed=True)


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 0, -2, "many", [], "nan"])
def test_scales_that_are_no_scales(scale):
    refuses(ValueError, "loss_scale must be", net(), loss_scale=scale)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"min_loss_scale": float("nan")}, "min_loss_scale must be a positive"),
        ({"max_loss_scale": 0}, "max_loss_scale must be a positive"),
        ({"min_loss_scale": 8, "max_loss_scale": 4}, "must not be above"),
        ({"dynamic_init_scale": -1}, "dynamic_init_scale must be"),
        ({"scale_growth_factor": 0.5}, "must be at least 1"),
        ({"scale_backoff_factor": 2.0}, "at most 1"),
        ({"scale_window": 0}, "scale_window must be a whole number"),
        ({"num_losses": 0}, "num_losses must be a whole number"),
        ({"ddp_replica_count": 0, "opt_level": "O2"}, "ddp_replica_count must be a whole number"),
    ],
)
def test_numbers_out_of_range(options, text):
    refuses(ValueError, text, net(), **options)


@pytest.mark.parametrize(
    ("level", "options"),
    [
        ("O1", {"master_weights": True}),
        ("O1", {"keep_batchnorm_fp32": True}),
        ("O1", {"cast_model_type": torch.float16}),
        ("O2", {"patch_torch_functions": True}),
        ("O2", {"user_cast_preferred": True}),
        ("O0", {"combine_grad": True}),
        ("O3", {"check_combined_tensors": True}),
        ("O2", {"combine_ddp": True}),
    ],
)
def test_options_of_another_level(level, options):
    refuses(RuntimeError, next(iter(options)), net(), opt_level=level, **options)


def test_options_of_a_wrong_type():
    refuses(TypeError, "keep_batchnorm_fp32 must be", net(), opt_level="O2", keep_batchnorm_fp32="yes")
    refuses(TypeError, "cast_model_type must be", net(), opt_level="O2", cast_model_type=torch.int8)
    refuses(TypeError, "cast_model_outputs must be", net(), cast_model_outputs="half")
    refuses(TypeError, "takes a model or a list of models, not int", 3)
    refuses(TypeError, "takes an optimizer or a list of optimizers, not str", net(), "sgd")
    model = net().half()
    refuses(RuntimeError, "not apex.fp16_utils.FP16_Optimizer", net(), FP16_Optimizer(sgd(model)))


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_second_initialize(level):
    model, optimizer = initialized(opt_level=level)
    refuses(RuntimeError, "this Net passed through amp.initialize before", model, opt_level=level)
    refuses(RuntimeError, "this SGD passed through amp.initialize before", net(), optimizer, opt_level=level)
    backward(model, optimizer, *batch())
    other = net()
    other, its = amp.initialize(other, sgd(other), opt_level=level, verbosity=0)
    backward(other, its, *batch())


def test_initialize_after_a_parallel_wrapper():
    model = torch.nn.DataParallel(net())
    refuses(RuntimeError, "model inside DataParallel: call amp.initialize first", model, opt_level="O2")


def test_half_parameters_and_buffers():
    refuses(RuntimeError, "parameter unused is torch.float16, but it must be float32", net().half())
    model = net()
    model.norm.running_mean = model.norm.running_mean.half()
    refuses(RuntimeError, "buffer norm.running_mean is torch.float16", model)


def test_parameters_of_the_cpu_in_an_npu_model():
    model = net()
    model.fc.cpu()
    refuses(RuntimeError, r"fc.weight is on the CPU and unused is on npu: move all models by model.to\('npu'\)", model)
    assert model.conv.weight.dtype == torch.float32 and "forward" not in vars(model)


def test_a_refusal_changes_nothing():
    model = net()
    optimizer = sgd(model)
    refuses(RuntimeError, "is torch.float16", [model, net().half()], [optimizer], opt_level="O2")
    assert model.conv.weight.dtype == torch.float32 and "step" not in vars(optimizer)
    assert not hasattr(optimizer, "_amp_stash") and not hasattr(amp._amp_state, "opt_properties")


def test_scale_loss_refuses_what_it_cannot_scale():
    model = net()
    optimizer = sgd(model)
    loss = model(batch()[0]).sum()
    with pytest.raises(RuntimeError, match="initialize first"), amp.scale_loss(loss, optimizer):
        pass
    for call in (amp.state_dict, lambda: amp.load_state_dict({})):
        with pytest.raises(RuntimeError, match="initialize first"):
            call()
    amp.initialize(model, optimizer, opt_level="O1", verbosity=0)
    with pytest.raises(RuntimeError, match="did not pass through amp"), amp.scale_loss(loss, sgd(net())):
        pass
    with pytest.raises(TypeError, match="takes a tensor as loss, not float"), amp.scale_loss(1.0, optimizer):
        pass
    with pytest.raises(IndexError, match="loss_id must be 0 to 0, not 1: pass num_losses"), amp.scale_loss(loss, optimizer, 1):
        pass


def test_a_state_of_another_shape():
    initialized(opt_level="O1")
    one = {"loss_scale": 2.0, "unskipped": 0}
    for state, text in (
        ({"loss_scaler0": one, "loss_scaler1": one}, "has 2 loss scalers, and this program has 1: pass num_losses=2"),
        ({"model": {}}, "unexpected keys model"),
        ({"loss_scaler0": 3}, "loss_scaler0 must have loss_scale and unskipped"),
    ):
        with pytest.raises(RuntimeError, match=text):
            amp.load_state_dict(state)
    with pytest.raises(TypeError, match="takes the dictionary"):
        amp.load_state_dict([one])


def test_the_old_interface_names_the_new_one():
    with pytest.raises(RuntimeError, match="old interface"):
        amp.init()


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_block_inside_a_block_of_the_same_optimizer(level, delay):
    model, optimizer = initialized(opt_level=level)
    loss = model(batch()[0]).float().square().mean()
    for _ in range(2):  # a refusal ends both blocks
        with (
            pytest.raises(RuntimeError, match="end that block first"),
            amp.scale_loss(loss, optimizer),
            amp.scale_loss(loss, optimizer, delay_unscale=delay),
        ):
            pass


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_an_optimizer_that_is_named_twice_counts_once(level):
    model, optimizer = initialized(opt_level=level)
    loss = model(batch()[0]).float().square().mean()
    found = []
    for optimizers in (optimizer, [optimizer, optimizer]):
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizers) as scaled_loss:
            scaled_loss.backward(retain_graph=True)
        found.append([param.grad.cpu() for param in amp.master_params(optimizer) if param.grad is not None])
    assert all_equal(*found)


def test_optimizers_of_one_block_that_share_parameters():
    model = net()
    model, both = amp.initialize(model, [sgd(model), sgd(model.fc)], opt_level="O1", verbosity=0)
    loss = model(batch()[0]).float().square().mean()
    with pytest.raises(RuntimeError, match="share 2 parameters"), amp.scale_loss(loss, both):
        pass
    with amp.scale_loss(loss, both[1]) as scaled_loss:
        scaled_loss.backward()
