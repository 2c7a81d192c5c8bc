"""Whole models learn on npu as on the CPU: 20 steps, the same losses and gradients, and no operator on the CPU."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

STEPS = 20


class Residual(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels * stride, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels * stride),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels * stride, channels * stride, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels * stride),
        )
        self.short = nn.Conv2d(channels, channels * stride, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, batch_first=True)
        self.head = nn.Linear(24, 30)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0]).flatten(0, 1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 30)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens))).flatten(0, 1)


def mlp():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 5))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Sigmoid(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5),
    )  # fmt: skip


def resnet():
    stem = [nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(
        *stem, nn.MaxPool2d(2), Residual(8, 1), Residual(8, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )


def of_shape(*shape):
    return lambda: (torch.randn(8, *shape), torch.randint(0, 5, (8,)))


def of_tokens():
    text = torch.randint(0, 30, (4, 8))
    return text[:, :-1], text[:, 1:].flatten()


MODELS = {
    "mlp": (mlp, of_shape(20)),
    "lenet": (lenet, of_shape(1, 12, 12)),
    "resnet": (resnet, of_shape(3, 16, 16)),
    "lstm": (Language, of_tokens),
    "transformer": (Encoder, of_tokens),
}
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
}


def train(net, batches, make_optimizer, device):
    net = copy.deepcopy(net).to(device)
    optimizer = make_optimizer(net.parameters())
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        loss.backward()
        if not losses:
            gradients = {name: parameter.grad.cpu().clone() for name, parameter in net.named_parameters()}
        optimizer.step()
        losses.append(loss.item())
    return losses, gradients, {name: value.cpu() for name, value in net.state_dict().items()}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_a_model_learns_as_on_the_cpu(model, optimizer):
    make, batch = MODELS[model]
    torch.manual_seed(0)
    net = make()
    batches = [batch() for _ in range(STEPS)]
    losses, gradients, _ = train(net, batches, OPTIMIZERS[optimizer], "cpu")
    npu_losses, npu_gradients, npu_state = train(net, batches, OPTIMIZERS[optimizer], "npu")
    assert npu_losses == pytest.approx(losses, rel=1e-4)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            npu_gradients[name], gradient, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert all(value.isfinite().all() for value in npu_state.values())
    assert torch.npu.fallback_stats() == {}


@pytest.mark.parametrize("model", MODELS)
def test_a_model_answers_as_on_the_cpu(model):
    make, batch = MODELS[model]
    torch.manual_seed(0)
    net = make().eval()
    x, _ = batch()
    with torch.no_grad():
        expected = net(x)
        torch.testing.assert_close(net.npu()(x.npu()).cpu(), expected, rtol=1e-4, atol=1e-5)


def test_mean_squared_error_and_dropout_train():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1)).npu()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    x = torch.randn(64, 8, device="npu")
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
