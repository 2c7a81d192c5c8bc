"""torch.func on npu gives what it gives on the CPU."""

import copy

import pytest
import torch
from support import on_both
from torch import nn
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

X, W = torch.linspace(-1, 1, 12).view(4, 3), torch.linspace(-2, 1, 9).view(3, 3)


def loss(x, w):
    return torch.tanh(x @ w).pow(2).sum()


TRANSFORMS = {
    "vmap": lambda x, w: vmap(lambda a, b: (a * b).sum())(x, x),
    "vmap over one": lambda x, w: vmap(torch.mv, (None, 0))(w, x),
    "vmap over columns": lambda x, w: vmap(torch.dot, in_dims=(1, 1))(x, x),
    "vmap nested": lambda x, w: vmap(vmap(torch.mul, (None, 0)), (0, None))(x[0], x),
    "vmap in chunks": lambda x, w: vmap(torch.sin, chunk_size=2)(x),
    "vmap of what has no rule": lambda x, w: vmap(lambda a: torch.searchsorted(a, a))(x),
    "vmap of indexing": lambda x, w: vmap(lambda a, i: a[i])(x, torch.tensor([0, 2, 1, 0], device=x.device)),
    "grad": lambda x, w: grad(loss, argnums=(0, 1))(x, w),
    "grad and value": lambda x, w: grad_and_value(loss)(x, w),
    "grad of grad": lambda x, w: vmap(grad(grad(torch.sin)))(x.flatten()),
    "gradients of samples": lambda x, w: vmap(grad(loss, argnums=1), (0, None))(x, w),
    "vjp": lambda x, w: vjp(torch.exp, x)[1](x),
    "jvp": lambda x, w: jvp(torch.exp, (x,), (x,)),
    "linearize": lambda x, w: linearize(torch.exp, x)[1](x),
    "jacrev": lambda x, w: jacrev(lambda y: torch.sin(y @ w))(x),
    "jacfwd": lambda x, w: jacfwd(lambda y: torch.sin(y @ w))(x),
    "hessian": lambda x, w: hessian(lambda y: loss(y, w))(x),
    "functionalize": lambda x, w: functionalize(lambda y: y.clone().add_(1).view(-1).mul_(2))(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    on_both(lambda device: TRANSFORMS[name](X.to(device), W.to(device)))


def test_a_module_is_called_with_other_parameters():
    def run(device):
        net = nn.Linear(3, 2).to(device)
        doubled = {name: value * 2 for name, value in net.named_parameters()}
        return functional_call(net, doubled, (X.to(device),)), net(X.to(device))

    on_both(run)


def test_an_ensemble_runs_as_one():
    def run(device):
        nets = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval().to(device) for _ in range(3)]
        parameters, buffers = stack_module_state(nets)
        base = copy.deepcopy(nets[0]).to("meta")
        together = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), (0, 0, None))(parameters, buffers, X.to(device))
        torch.testing.assert_close(together, torch.stack([net(X.to(device)) for net in nets]))
        return together

    on_both(run)


def test_gradients_of_the_samples_of_a_network():
    def run(device):
        net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(72, 3)).to(device)
        parameters = {name: value.detach() for name, value in net.named_parameters()}
        images, labels = torch.rand(4, 1, 8, 8).to(device), torch.tensor([0, 1, 2, 0]).to(device)

        def loss(parameters, image, label):
            return nn.functional.cross_entropy(functional_call(net, parameters, (image[None],)), label[None])

        return vmap(grad(loss), (None, 0, 0))(parameters, images, labels)

    on_both(run)


def test_randomness_under_vmap_is_as_one_asks():
    x = torch.ones(4, 100, device="npu")
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda row: row + torch.randn(100, device="npu"))(x)
    for draw in (lambda row: row + torch.rand(100, device="npu"), nn.functional.dropout):
        same = vmap(draw, randomness="same")(x)
        different = vmap(draw, randomness="different")(x)
        assert torch.equal(same[0], same[1])
        assert not torch.equal(different[0], different[1])
