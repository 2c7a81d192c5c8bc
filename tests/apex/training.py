"""A small network and its training, for the tests of apex."""

import torch
from apex import amp
from torch import nn
from torch.nn import functional

from tests.support import randn


class Net(nn.Module):
    """A convolution, a batch norm and a linear layer, and a parameter that no forward pass uses."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 36, 10)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.conv_dtype = self.conv(x).dtype
        return self.fc(self.norm(self.conv(x)).relu().flatten(1))


def net(device="npu", seed=0):
    torch.manual_seed(seed)
    return Net().to(device)


def batch(device="npu", seed=0):
    target = torch.arange(16) % 10
    return randn(16, 3, 8, 8, seed=seed).to(device), target.to(device)


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, **options})


def backward(model, optimizer, x, y, **options):
    loss = functional.cross_entropy(model(x).float(), y)
    with amp.scale_loss(loss, optimizer, **options) as scaled_loss:
        scaled_loss.backward()
    return loss.item()


def train(model, optimizer, steps=6, first=0, device="npu"):
    """Returns the losses."""
    losses = []
    for step in range(first, first + steps):
        optimizer.zero_grad()
        losses.append(backward(model, optimizer, *batch(device, seed=step % 3)))
        optimizer.step()
    return losses


def initialized(device="npu", optimizer=sgd, **options):
    model = net(device)
    return amp.initialize(model, optimizer(model), verbosity=0, **options)


def scale(loss_id=0):
    return amp._amp_state.loss_scalers[loss_id].loss_scale()


def masters(optimizer):
    return [param.detach().cpu().clone() for param in amp.master_params(optimizer)]


def all_equal(one, other):
    return len(one) == len(other) and all(a.dtype == b.dtype and a.equal(b) for a, b in zip(one, other, strict=True))
