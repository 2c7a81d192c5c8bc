"""Fused optimizers with their twins in torch.optim, and parameters to train: for the tests of the optimizers."""

import torch
from torch_npu import optim

# Name -> (fused class, class of torch.optim, options of both).
TWINS = {
    "sgd": (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "momentum": (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.2}),
    "nesterov": (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "adam": (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.01}),
    "amsgrad": (optim.NpuFusedAdam, torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw": (optim.NpuFusedAdamW, torch.optim.AdamW, {"lr": 0.01}),
    "adadelta": (optim.NpuFusedAdadelta, torch.optim.Adadelta, {"weight_decay": 0.01}),
    "rmsprop": (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"weight_decay": 0.01}),
    "centered": (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
}
# Name -> (fused class, options), for those without a twin.
OTHERS = {
    "lamb": (optim.NpuFusedLamb, {"lr": 0.01, "weight_decay": 0.1, "use_global_grad_norm": True}),
    "adamp": (optim.NpuFusedAdamP, {"lr": 0.01, "weight_decay": 0.1, "delta": 2.0}),
    "bert_adam": (optim.NpuFusedBertAdam, {"lr": 0.01, "t_total": 100, "schedule": "warmup_cosine"}),
    "rmsprop_tf": (optim.NpuFusedRMSpropTF, {"momentum": 0.9, "weight_decay": 0.01}),
}
ALL = [*TWINS, *OTHERS]


def fused(name, params):
    if name in OTHERS:
        kind, options = OTHERS[name]
    else:
        kind, _, options = TWINS[name]
    return kind(params, **options)


def plain(name, params, **more):
    _, kind, options = TWINS[name]
    return kind(params, **options, **more)


def both(name):
    """(device, function that makes the optimizer of some parameters): the fused one on npu, then that of torch.optim."""
    return [("npu", lambda params: fused(name, params)), ("cpu", lambda params: plain(name, params))]


def parameters(device, shapes=((4, 3), (3,), (), (2, 3, 2)), dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype).to(device)) for shape in shapes]


def loss(params):
    return sum((param.float() ** 2).sum() + param.float().sin().sum() for param in params)


def train(optimizer, params, count, set_to_none=False):
    for _ in range(count):
        optimizer.zero_grad(set_to_none=set_to_none)
        loss(params).backward()
        optimizer.step()
