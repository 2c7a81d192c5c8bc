"""The comparison of networks finds differences."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.models.training import STEPS, check_evaluation, check_training

BATCH = (torch.linspace(-1, 1, 20).view(5, 4), torch.arange(5) % 3)


def net():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


def loss(net, x, y):
    return F.cross_entropy(net(x), y)


class OnNpu:
    """Calls `change` on the network on npu before its forward pass number `step`."""

    def __init__(self, step, change):
        self.left, self.change = step, change

    def __call__(self, net, x, y):
        if x.device.type == "npu":
            if self.left == 0:
                self.change(net)
            self.left -= 1
        return loss(net, x, y)


@torch.no_grad()
def add(net, name):
    net.state_dict()[name].flatten()[0] += 1e-2


def test_equal_networks_pass():
    cpu, npu = check_training(net, BATCH, loss)
    check_evaluation(cpu, npu, BATCH[:1])
    add(npu, "3.bias")
    with pytest.raises(AssertionError, match="result"):
        check_evaluation(cpu, npu, BATCH[:1])


@pytest.mark.parametrize("step", range(STEPS))
@pytest.mark.parametrize("name", ["0.weight", "1.running_mean", "3.bias"])
def test_a_parameter_or_buffer_that_differs_is_found(name, step):
    with pytest.raises(AssertionError, match="results differ"):
        check_training(net, BATCH, OnNpu(step, lambda net: add(net, name)))


def test_a_gradient_that_differs_is_found():
    def scale(net):
        net[0].weight.register_hook(lambda gradient: gradient * 1.01)

    with pytest.raises(AssertionError, match=r"1 of 6 results differ.*gradient .*0\.weight"):
        check_training(net, BATCH, OnNpu(0, scale))


@pytest.mark.fallback
def test_an_operator_on_the_cpu_is_found():
    library = torch.library.Library("models_test", "DEF")
    library.define("none(Tensor x) -> Tensor")
    library.impl("none", torch.zeros_like, "CPU")

    class Sum(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.ops.models_test.none(x.detach()).sum()

    with pytest.raises(AssertionError, match="models_test::none"):
        check_training(lambda: Sum(4, 3), BATCH, loss)
