"""Training of whole networks on npu and on the CPU, side by side from one state, and the comparison of both.

    check_training(lambda: nn.Linear(4, 3), batch, lambda net, x, y: F.cross_entropy(net(x), y))

`batch` holds the arguments of the loss after the network; its tensors are moved to the device. The loss may also return a pair;
the second item is then the network's output. Random numbers differ between the devices, so that dropout is off.
"""

import copy
import importlib

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

STEPS = 3
TOLERANCE = 1e-4  # limit of mean absolute differences
GRADIENT_TOLERANCE = 1e-3  # the same, relative to the gradient's mean


def needs(name):
    """Imports the module, or skips the test with the reason."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a build for another torch fails with any error
        pytest.skip(f"{name} cannot be imported: {error}")


def to(device, tree):
    return pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, tree)


def without_dropout(net):
    for module in net.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    return net


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4)


class Trainer:
    """A network with its optimizer."""

    def __init__(self, net, batch, loss_of, make_optimizer):
        self.net, self.batch, self.loss_of = net.train(), batch, loss_of
        self.optimizer = make_optimizer(net.parameters())

    def backward(self):
        """Runs forward and backward. Returns the loss and the network's output."""
        result = self.loss_of(self.net, *self.batch)
        loss, output = result if isinstance(result, tuple) else (result, result)
        self.optimizer.zero_grad()
        loss.backward()
        return loss, output

    def gradients(self):
        return {name: parameter.grad for name, parameter in self.net.named_parameters() if parameter.grad is not None}


def mean_size(tensor):
    return tensor.double().abs().mean().item() if tensor.numel() > 0 else 0.0


def difference(expected, got, name):
    """Mean absolute difference."""
    expected, got = expected.detach(), got.detach().cpu()
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype), name
    if expected.numel() == 0:
        return 0.0
    assert torch.isfinite(expected).all(), f"{name} of the CPU is not finite: nothing can be compared"
    return mean_size(expected.double() - got.double())


def assert_equal(expected, got, what, tolerance=TOLERANCE, unit=1.0):
    """Compares trees of tensors. Differences are divided by the tensor's mean absolute value if that exceeds `unit`."""
    wanted, spec = pytree.tree_flatten_with_path(expected)
    found, same = pytree.tree_flatten(got)
    assert spec == same, f"{what}: another structure"
    differences = {}
    for (path, one), other in zip(wanted, found, strict=True):
        name = what + pytree.keystr(path)
        differences[name] = difference(one, other, name) / max(unit, mean_size(one))
    wrong = sorted((name for name, value in differences.items() if not value <= tolerance), key=lambda name: -differences[name])
    shown = ", ".join(f"{name} by {differences[name]:.2g}" for name in wrong[:5])
    assert not wrong, f"{len(wrong)} of {len(differences)} results differ by more than {tolerance}: {shown}"


def assert_no_fallback():
    assert torch.npu.fallback_stats() == {}, f"ran on the CPU: {torch.npu.fallback_stats()}"


def assert_gradients(expected, got):
    """A gradient that is 0 but for rounding, such as that of a bias before a normalisation, is compared with the largest."""
    largest = max(map(mean_size, expected.values()))
    assert largest > 0, "nothing to learn"
    assert_equal(expected, got, "gradient ", GRADIENT_TOLERANCE, unit=largest / 100)


def check_training(make, batch, loss_of, make_optimizer=sgd):
    """Compares forward, backward and 3 optimizer steps; no operator falls back to the CPU. Returns both trained networks."""
    torch.manual_seed(0)
    net = without_dropout(make())
    npu = Trainer(copy.deepcopy(net).to("npu"), to("npu", batch), loss_of, make_optimizer)
    cpu = Trainer(net, batch, loss_of, make_optimizer)
    torch.npu.reset_fallback_stats()
    for step in range(STEPS):
        assert_equal(cpu.backward(), npu.backward(), f"loss and output {step}")
        if step == 0:
            assert_gradients(cpu.gradients(), npu.gradients())
        cpu.optimizer.step()
        npu.optimizer.step()
    assert_equal(cpu.net.state_dict(), npu.net.state_dict(), "state ")
    assert_no_fallback()
    return cpu.net, npu.net


def check_evaluation(cpu, npu, batch):
    """Compares the results of two networks in evaluation mode."""
    torch.npu.reset_fallback_stats()
    with torch.no_grad():
        assert_equal(cpu.eval()(*batch), npu.eval()(*to("npu", batch)), "result ")
    assert_no_fallback()
