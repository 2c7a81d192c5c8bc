"""The jobs of the comparison of half precision with float32. Each takes a dtype and returns a function that does the job once."""

import functools

import torch
from torch import nn

from bench.models.__main__ import NETWORKS, loss_of

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
OPERATOR_BAR = 1.5
# Networks whose training under autocast has a bar of its own.
TRAINING_BARS = {"ResNet-18": 1.2, "BERT": 1.2}


def _rand(dtype, *shape, requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    tensor = torch.rand(*shape, generator=generator).sub_(0.5).npu().to(dtype)
    return tensor.requires_grad_(requires_grad)


def _call(function, *shapes):
    def make(dtype):
        operands = [_rand(dtype, *shape) for shape in shapes]
        return lambda: function(*operands)

    return make


def _forward(module, *shape):
    def make(dtype):
        layer, x = module().npu().to(dtype), _rand(dtype, *shape)
        return torch.no_grad()(lambda: layer(x))

    return make


def _first(output):
    return output[0] if isinstance(output, tuple) else output


def _training(module, *shape):
    """Forward and backward, with the gradients of the input and the weights."""

    def make(dtype):
        layer, x = module().npu().to(dtype), _rand(dtype, *shape, requires_grad=True)
        inputs = [x, *layer.parameters()]
        gradient = torch.ones_like(_first(layer(x)))
        return lambda: torch.autograd.grad(_first(layer(x)), inputs, gradient)

    return make


def _attention(causal, dtype):
    q, k, v = (_rand(dtype, 8, 64, 4, 32).transpose(1, 2) for _ in range(3))
    return lambda: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


def _attention_training(dtype):
    inputs = [_rand(dtype, 8, 64, 4, 32).transpose(1, 2).requires_grad_() for _ in range(3)]
    gradient = _rand(dtype, 8, 4, 64, 32)
    return lambda: torch.autograd.grad(nn.functional.scaled_dot_product_attention(*inputs), inputs, gradient)


# Name -> the module and the shape of its input. The sizes are those of the networks of bench/models.
LAYERS = {
    "linear 128 -> 512": (lambda: nn.Linear(128, 512), (8, 64, 128)),
    "conv 3x3, 64 channels": (lambda: nn.Conv2d(64, 64, 3, padding=1), (4, 64, 32, 32)),
    "conv 7x7, stem": (lambda: nn.Conv2d(3, 64, 7, 2, 3, bias=False), (8, 3, 64, 64)),
    "conv 3x3, 512 channels": (lambda: nn.Conv2d(512, 512, 3, padding=1, bias=False), (8, 512, 2, 2)),
    "conv 1x1": (lambda: nn.Conv2d(96, 576, 1, bias=False), (8, 96, 8, 8)),
    "conv 3x3, depthwise": (lambda: nn.Conv2d(192, 192, 3, padding=1, groups=192, bias=False), (8, 192, 8, 8)),
    "conv 3x3, 4 groups": (lambda: nn.Conv2d(64, 64, 3, padding=1, groups=4), (4, 64, 32, 32)),
    "conv 2x2, transposed": (lambda: nn.ConvTranspose2d(64, 32, 2, 2), (2, 64, 16, 16)),
    "conv1d": (lambda: nn.Conv1d(128, 128, 3, padding=1), (8, 128, 64)),
    "conv3d": (lambda: nn.Conv3d(16, 16, 3, padding=1), (2, 16, 8, 16, 16)),
    "LSTM": (lambda: nn.LSTM(128, 128, batch_first=True), (8, 64, 128)),
    "GRU": (lambda: nn.GRU(128, 128, batch_first=True), (8, 64, 128)),
}

OPERATORS = {
    "mm 512x512": _call(torch.mm, (512, 512), (512, 512)),
    "mm 512x512, transposed": _call(lambda a, b: a.t() @ b.t(), (512, 512), (512, 512)),
    "bmm 32x64x64": _call(torch.bmm, (32, 64, 64), (32, 64, 64)),
    "addmm 512x128x512": _call(torch.addmm, (512,), (512, 128), (128, 512)),
    "baddbmm 32x64x64": _call(torch.baddbmm, (32, 64, 64), (32, 64, 64), (32, 64, 64)),
    "mv 1024x1024": _call(torch.mv, (1024, 1024), (1024,)),
    "addmv 1024x1024": _call(torch.addmv, (1024,), (1024, 1024), (1024,)),
    "linear 1024 -> 4096, one row": _call(nn.functional.linear, (1, 1024), (4096, 1024)),
    "linear 1024 -> 4096, 4 rows": _call(nn.functional.linear, (4, 1024), (4096, 1024)),
    "mm 1x1024, 1024x4096": _call(torch.mm, (1, 1024), (1024, 4096)),
    "dot 65536": _call(torch.dot, (65536,), (65536,)),
    "attention": functools.partial(_attention, False),
    "attention, causal": functools.partial(_attention, True),
    "attention, with backward": _attention_training,
    **{f"{name}, inference": _forward(*layer) for name, layer in LAYERS.items()},
    **{f"{name}, with backward": _training(*layer) for name, layer in LAYERS.items()},
}


def network_step(name, dtype):
    """A training step of a network; under autocast if the dtype is one of half precision."""
    network, data, optimizer = NETWORKS[name]
    torch.manual_seed(0)
    model = network().npu()
    inputs, targets = (tensor.npu() for tensor in data())
    steps = optimizer(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("npu", enabled=dtype == torch.float16)

    def step():
        steps.zero_grad()
        with torch.autocast("npu", dtype=dtype, enabled=dtype != torch.float32):
            loss = loss_of(name, model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(steps)
        scaler.update()
        return loss.item()

    return step
