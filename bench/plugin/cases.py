"""The cases, each with two ratios: `bar` must be reached, `stretch` is the goal."""

import ctypes
import functools
import os

import torch
from torch import nn, optim

from bench.measure import Case


def _small(device, requires_grad=False):
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.rand(64, 64, generator=generator) + 0.1 for _ in range(2)]
    return [tensor.to(device).requires_grad_(requires_grad) for tensor in tensors]


ARITHMETIC = {
    "add": lambda a, b, mask: lambda: a + b,
    "mul": lambda a, b, mask: lambda: a * b,
    "sub": lambda a, b, mask: lambda: a - b,
    "div": lambda a, b, mask: lambda: a / b,
    "relu": lambda a, b, mask: lambda: torch.relu(a),
    "neg": lambda a, b, mask: lambda: -a,
    "compare": lambda a, b, mask: lambda: a < b,
    "where": lambda a, b, mask: lambda: torch.where(mask, a, b),
}

# The operators that networks call most. Their median has a bar, and each has a wider one.
SMALL = {
    **ARITHMETIC,
    "abs": lambda a, b, mask: lambda: a.abs(),
    "exp": lambda a, b, mask: lambda: torch.exp(a),
    "log": lambda a, b, mask: lambda: a.log(),
    "sqrt": lambda a, b, mask: lambda: a.sqrt(),
    "pow": lambda a, b, mask: lambda: a.pow(3),
    "tanh": lambda a, b, mask: lambda: torch.tanh(a),
    "sigmoid": lambda a, b, mask: lambda: torch.sigmoid(a),
    "silu": lambda a, b, mask: lambda: nn.functional.silu(a),
    "gelu": lambda a, b, mask: lambda: nn.functional.gelu(a),
    "leaky_relu": lambda a, b, mask: lambda: nn.functional.leaky_relu(a),
    "clamp": lambda a, b, mask: lambda: a.clamp(0.2, 0.8),
    "maximum": lambda a, b, mask: lambda: torch.maximum(a, b),
    "lerp": lambda a, b, mask: lambda: torch.lerp(a, b, 0.3),
    "addcmul": lambda a, b, mask: lambda: torch.addcmul(a, b, b),
    "add_": lambda a, b, mask: lambda: a.add_(b, alpha=1e-9),
    "mul-by-number": lambda a, b, mask: lambda: a * 1.5,
    "masked_fill": lambda a, b, mask: lambda: a.masked_fill(mask, 0.0),
    "softmax": lambda a, b, mask: lambda: torch.softmax(a, 1),
    "layer_norm": lambda a, b, mask: lambda: nn.functional.layer_norm(a, (64,)),
    "sum": lambda a, b, mask: lambda: a.sum(),
    "mean": lambda a, b, mask: lambda: a.mean(1),
    "var": lambda a, b, mask: lambda: a.var(1),
    "norm": lambda a, b, mask: lambda: a.norm(),
    "argmax": lambda a, b, mask: lambda: a.argmax(1),
    "cumsum": lambda a, b, mask: lambda: a.cumsum(1),
    "sort": lambda a, b, mask: lambda: a.sort(1),
    "cat": lambda a, b, mask: lambda: torch.cat([a, b]),
    "expand+clone": lambda a, b, mask: lambda: a[:1].expand(64, 64).clone(),
    "transpose+contiguous": lambda a, b, mask: lambda: a.t().contiguous(),
    "cast": lambda a, b, mask: lambda: a.half(),
    "index rows": lambda a, b, mask: functools.partial(lambda a, rows: a[rows], a, torch.arange(0, 64, 2).to(a.device)),
    "embedding": lambda a, b, mask: functools.partial(nn.functional.embedding, torch.arange(63, -1, -1).to(a.device), a),
}


def _op(build, requires_grad=False):
    def make(device):
        a, b = _small(device, requires_grad)
        return build(a, b, b.detach() > 0.6)

    return make


def _large_add(device):
    a, b = (torch.rand(1024, 1024).to(device) for _ in range(2))
    return lambda: a + b


def _item(device):
    a = torch.ones(1).to(device)
    return lambda: a.item()


def _op_then_item(device):
    a = torch.ones(4).to(device)
    return lambda: (a + a).sum().item()


def _empty(size, device):
    return lambda: torch.empty(size, size, device=device)


@functools.cache
def _library():
    """The library that calls at::add from C++, without Python in between; scripts/bench builds it."""
    library = ctypes.CDLL(os.environ["TORCH_NPU_BENCH_LIBRARY"])
    library.prepare_add.restype = ctypes.c_void_p
    library.add_many.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return library


def _cpp_add(device):
    add_many, operands = _library().add_many, _library().prepare_add(int(device == "npu"))
    return lambda: add_many(operands, 1000)


def _step(model, inputs, targets, loss, device, item):
    torch.manual_seed(0)
    model, inputs, targets = model().to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        value = loss(model(inputs), targets)
        value.backward()
        optimizer.step()
        return value.item() if item else None

    return step


_momentum_foreach = functools.partial(optim.SGD, lr=0.01, momentum=0.9, foreach=True)
_momentum_fused = functools.partial(optim.SGD, lr=0.01, momentum=0.9, fused=True)


def _optimizer_step(make, device):
    """A step over the parameters of a small network: 60 tensors, no gradient computed."""
    generator = torch.Generator().manual_seed(0)
    parameters = [nn.Parameter(torch.rand(*shape, generator=generator).to(device)) for shape in [(128, 128), (128,)] * 30]
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, 0.01)
    return make(parameters).step


def _mlp(item, device):
    def model():
        return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))

    return _step(model, torch.rand(64, 256), torch.rand(64, 256), nn.functional.mse_loss, device, item)


def _transformer(device):
    def model():
        return nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)

    return _step(model, torch.rand(8, 32, 64), torch.rand(8, 32, 64), nn.functional.mse_loss, device, True)


def _convnet(device):
    def model():
        return nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 8 * 8, 10),
        )  # fmt: skip

    targets = torch.arange(16) % 10
    return _step(model, torch.rand(16, 3, 32, 32), targets, nn.functional.cross_entropy, device, True)


CASES = [
    *(Case(f"{name} 64x64", _op(build), 0.80, 0.60) for name, build in ARITHMETIC.items()),
    *(Case(f"{name} 64x64 grad", _op(build, True), 0.90, 0.70) for name, build in ARITHMETIC.items()),
    Case("C++ at::add 2x2", _cpp_add, 0.50, 0.35),
    Case("mm 64x64", _op(lambda a, b, mask: lambda: torch.mm(a, b)), 1.05, 1.00),
    Case("add 1024x1024, calling thread", _large_add, 0.15, 0.05, calling_thread=True),
    Case("add 1024x1024", _large_add, 0.95, 0.75),
    Case("item() on an idle stream", _item, 1.15, 1.05),
    Case("op then item()", _op_then_item, 1.00, 0.80),
    Case("MLP step with item()", functools.partial(_mlp, True), 0.75, 0.60),
    Case("MLP step", functools.partial(_mlp, False), 0.65, 0.50),
    Case("Transformer-layer step", _transformer, 0.95, 0.80),
    Case("ConvNet step", _convnet, 1.00, 0.90),
    Case("Adam step, foreach", functools.partial(_optimizer_step, functools.partial(optim.Adam, foreach=True)), 1.00, 0.80),
    Case("AdamW step, fused", functools.partial(_optimizer_step, functools.partial(optim.AdamW, fused=True)), 1.10, 1.00),
    Case("SGD step, foreach", functools.partial(_optimizer_step, _momentum_foreach), 1.00, 0.80),
    Case("SGD step, fused", functools.partial(_optimizer_step, _momentum_fused), 1.10, 1.00),
    Case("empty 64x64", functools.partial(_empty, 64), 0.90, 0.70),
    Case("empty 1024x1024", functools.partial(_empty, 1024), 0.50, 0.30),
]
SMALL_CASES = [Case(f"small: {name}", _op(build), 1.40, 1.00) for name, build in SMALL.items()]
MEDIAN_OF_SMALL = (f"{len(SMALL)} small ops, median", 1.00, 0.90)
