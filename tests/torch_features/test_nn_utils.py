"""torch.nn.utils, averaged weights and schedulers on npu give what they give on the CPU."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm, parametrizations, parametrize, prune, rnn, stateless
from torch.optim import lr_scheduler, swa_utils

from tests.compare import on_both


def network(device):
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)


def trained(net, optimizer, scheduler=None, steps=4, after=lambda step: None):
    """Trains. Returns the losses and the learning rates."""
    device, seen = next(net.parameters()).device, []
    for step in range(steps):
        optimizer.zero_grad()
        loss = net(torch.linspace(-1, 1, 15).view(5, 3).to(device)).pow(2).mean()
        loss.backward()
        optimizer.step()
        seen.append((loss, torch.tensor([float(group["lr"]) for group in optimizer.param_groups])))
        if scheduler is not None:
            scheduler.step(*([loss.detach()] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
        after(step)
    return seen


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_packed_sequences(kind, enforce_sorted):
    lengths = torch.tensor([5, 3, 1] if enforce_sorted else [3, 5, 1])

    def run(device):
        net = kind(3, 4, num_layers=2, bidirectional=True).to(device)
        x = torch.rand(5, 3, 3).to(device).requires_grad_()
        packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
        output, state = net(packed)
        padded, back = rnn.pad_packed_sequence(output, total_length=6, padding_value=-1.0)
        padded.sum().backward()
        return padded, back, state, x.grad, [parameter.grad for parameter in net.parameters()]

    on_both(run)


def test_sequences_are_packed_padded_and_taken_apart():
    def run(device):
        sequences = [torch.arange(float(size)).to(device) for size in (4, 2, 1)]
        padded = rnn.pad_sequence(sequences, batch_first=True, padding_value=9.0)
        packed = rnn.pack_sequence(sequences)
        assert packed.data.device.type == packed.to(device).data.device.type == torch.device(device).type
        return padded, list(packed), rnn.unpack_sequence(packed), rnn.unpad_sequence(padded, torch.tensor([4, 2, 1]), True)

    on_both(run)


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
@pytest.mark.parametrize("foreach", [None, False])
def test_clipping(norm, foreach):
    def run(device):
        net = network(device)
        net(torch.ones(5, 3, device=device)).pow(2).sum().backward()
        gradients = [parameter.grad for parameter in net.parameters()]
        total = nn.utils.clip_grad_norm_(net.parameters(), 0.5, norm, foreach=foreach)
        assert total.device.type == device
        clip_grads_with_norm_(net.parameters(), 0.1, get_total_norm(gradients, norm))
        nn.utils.clip_grad_value_(net.parameters(), 0.05)
        return total, gradients

    on_both(run)


def test_a_norm_that_is_not_finite_is_an_error_if_one_asks():
    parameter = nn.Parameter(torch.ones(2, device="npu"))
    parameter.grad = torch.tensor([1.0, float("nan")], device="npu")
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)


def test_parameters_as_a_vector():
    def run(device):
        net = network(device)
        vector = nn.utils.parameters_to_vector(net.parameters())
        nn.utils.vector_to_parameters(vector * 2, net.parameters())
        return vector, list(net.parameters())

    on_both(run)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


PARAMETRIZATIONS = {
    "own": lambda layer: parametrize.register_parametrization(layer, "weight", Symmetric()),
    "weight_norm": lambda layer: parametrizations.weight_norm(layer, dim=0),
    "spectral_norm": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
}


@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_parametrizations(name):
    def run(device):
        layer = nn.Linear(4, 4)
        PARAMETRIZATIONS[name](layer)
        net = nn.Sequential(nn.Linear(3, 4), layer).to(device)
        seen = trained(net, torch.optim.SGD(net.parameters(), lr=0.1))
        with parametrize.cached():
            cached = layer.weight
        copied = copy.deepcopy(layer).weight
        parametrize.remove_parametrizations(layer, "weight")
        assert layer.weight.device.type == device
        return seen, cached, layer.weight, copied

    on_both(run, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`", "ignore:`torch.nn.utils.spectral_norm`")
@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_norms_of_weights_by_hooks(name):
    def run(device):
        net = nn.Sequential(getattr(nn.utils, name)(nn.Linear(3, 4)), nn.Linear(4, 2)).to(device)
        seen = trained(net, torch.optim.SGD(net.parameters(), lr=0.1))
        getattr(nn.utils, f"remove_{name}")(net[0])
        return seen, net[0].weight

    on_both(run, rtol=1e-3, atol=1e-4)


def test_pruning():
    def run(device):
        net = network(device)
        prune.l1_unstructured(net[0], "weight", amount=0.5)
        prune.ln_structured(net[2], "weight", amount=1, n=2, dim=0)
        prune.custom_from_mask(net[2], "bias", torch.tensor([1.0, 0.0], device=device))
        seen = trained(net, torch.optim.SGD(net.parameters(), lr=0.1))
        masks = [net[0].weight_mask, net[2].weight_mask]
        prune.global_unstructured([(net[0], "weight"), (net[2], "weight")], prune.L1Unstructured, amount=3)
        prune.remove(net[0], "weight")
        return seen, masks, net[0].weight, net[2].weight

    on_both(run)


def test_random_pruning_hides_the_requested_number():
    layer = nn.Linear(10, 10).npu()
    prune.random_unstructured(layer, "weight", amount=0.3)
    assert layer.weight_mask.sum().item() == 70
    assert layer.weight_mask.is_npu


@pytest.mark.parametrize("average", ["swa", "ema", "ema with buffers"])
def test_averaged_weights(average):
    options = {} if average == "swa" else {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)}

    def run(device):
        net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).to(device)
        averaged = swa_utils.AveragedModel(net, use_buffers="buffers" in average, **options)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scheduler = swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
        seen = trained(net, optimizer, scheduler, after=lambda step: averaged.update_parameters(net))
        batches = [torch.linspace(-1, 1, 15).view(5, 3) + shift for shift in range(3)]
        swa_utils.update_bn(batches, averaged, device=device)
        return seen, list(averaged.parameters()), list(averaged.buffers())

    on_both(run)


@pytest.mark.parametrize("function", ["get_ema_avg_fn", "get_swa_avg_fn", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn"])
def test_functions_that_average(function):
    kind = "multi_avg_fn" if "multi" in function else "avg_fn"

    def run(device):
        net = network(device)
        averaged = swa_utils.AveragedModel(net, **{kind: getattr(swa_utils, function)()})
        trained(net, torch.optim.SGD(net.parameters(), lr=0.1), after=lambda step: averaged.update_parameters(net))
        return list(averaged.parameters())

    on_both(run)


SCHEDULERS = {
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda o: lr_scheduler.MultiplicativeLR(o, lambda epoch: 0.9),
    "StepLR": lambda o: lr_scheduler.StepLR(o, 2),
    "MultiStepLR": lambda o: lr_scheduler.MultiStepLR(o, [1, 3]),
    "ConstantLR": lambda o: lr_scheduler.ConstantLR(o, total_iters=2),
    "LinearLR": lambda o: lr_scheduler.LinearLR(o, total_iters=3),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o: lr_scheduler.PolynomialLR(o, 4),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 4),
    "CosineAnnealingWarmRestarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    "CyclicLR": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, step_size_up=2),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=6),
    "ReduceLROnPlateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0, threshold=0.5),
    "ChainedScheduler": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, total_iters=2), lr_scheduler.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "SequentialLR": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, total_iters=2), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[2]
    ),
}


def test_every_scheduler_of_torch_is_tested():
    others = {"LRScheduler", "SWALR", "_LRScheduler"}
    known = {name for name, value in vars(lr_scheduler).items() if isinstance(value, type)}
    assert {name for name in known if issubclass(getattr(lr_scheduler, name), lr_scheduler.LRScheduler)} - others == set(
        SCHEDULERS
    )


@pytest.mark.parametrize("tensor_rate", [False, True])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers(name, tensor_rate):
    def run(device):
        net = network(device)
        rate = torch.tensor(0.1, device=device) if tensor_rate else 0.1
        optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9, foreach=None if not tensor_rate else False)
        return trained(net, optimizer, SCHEDULERS[name](optimizer), steps=5)

    on_both(run)


def test_a_module_runs_with_other_parameters():
    def run(device):
        net = network(device)
        with pytest.deprecated_call():
            return stateless.functional_call(net, {"0.weight": torch.ones(4, 3, device=device)}, torch.ones(1, 3, device=device))

    on_both(run)


def test_batch_norm_is_folded_into_its_layer():
    def run(device):
        layer, norm = nn.Conv2d(1, 2, 3).to(device).eval(), nn.BatchNorm2d(2).to(device).eval()
        norm.running_mean.add_(0.5)
        x = torch.rand(1, 1, 5, 5).to(device)
        fused = nn.utils.fusion.fuse_conv_bn_eval(layer, norm)
        torch.testing.assert_close(fused(x), norm(layer(x)))
        return fused(x)

    on_both(run)


def test_layers_are_made_without_initialisation():
    layer = nn.utils.skip_init(nn.Linear, 3, 4, device="npu")
    assert layer.weight.is_npu
    nn.init.orthogonal_(layer.weight)
    assert torch.equal(nn.utils.parameters_to_vector(layer.parameters())[:12].cpu(), layer.weight.detach().flatten().cpu())


@pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm`")
@pytest.mark.parametrize("make", [parametrizations.weight_norm, nn.utils.weight_norm])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("dim", [0, 1, 2, None])
def test_normalised_weights_of_half_precision_learn(make, dtype, dim):
    def run(device):
        layer = make(nn.Conv1d(4, 3, 2), dim=dim).to(device, dtype)
        x = torch.randn(2, 4, 5).to(device, dtype).requires_grad_()
        layer(x).pow(2).sum().backward()
        return x.grad, [parameter.grad for parameter in layer.parameters()]

    on_both(run, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_norms_of_weights_are_kept_in_float(dtype):
    def run(device):
        v, g = torch.randn(5, 3).to(device, dtype), torch.rand(5, 1).to(device, dtype)
        weight, norms = torch._weight_norm_interface(v, g)
        assert norms.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        return norms, torch.ops.aten._weight_norm_interface_backward(torch.ones_like(weight), v, g, norms, 0)

    on_both(run, rtol=0.02, atol=0.02)
