"""Cases of the optimizer benchmark: fused optimizers, the unfused ones to compare with, and the shapes of 200 parameters."""

import torch
from torch_npu import optim
from torch_npu.utils import is_combined_tensor_valid, npu_combine_tensors

# Name -> (fused class, class of torch.optim, options of both).
TWINS = {
    "SGD": (optim.NpuFusedSGD, torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9, "weight_decay": 1e-4}),
    "Adam": (optim.NpuFusedAdam, torch.optim.Adam, {"weight_decay": 1e-4}),
    "AdamW": (optim.NpuFusedAdamW, torch.optim.AdamW, {}),
    "Adadelta": (optim.NpuFusedAdadelta, torch.optim.Adadelta, {}),
    "RMSprop": (optim.NpuFusedRMSprop, torch.optim.RMSprop, {"momentum": 0.9}),
}
# torch.optim lacks these: they are compared with its AdamW, whose formula has about as many operators.
OTHERS = {
    "Lamb": (optim.NpuFusedLamb, {"weight_decay": 1e-2}),
    "BertAdam": (optim.NpuFusedBertAdam, {"lr": 1e-3, "max_grad_norm": -1}),
    "AdamP": (optim.NpuFusedAdamP, {"weight_decay": 1e-2}),
    "RMSpropTF": (optim.NpuFusedRMSpropTF, {"momentum": 0.9}),
}


def shapes(width):
    """200 parameters in the proportions of a ResNet of basic blocks: convolutions, and two vectors for each."""
    found = [(width, 3, 7, 7), (width,), (width,)]
    channels = width
    for planes, blocks in ((width, 8), (2 * width, 8), (4 * width, 8), (8 * width, 8)):
        for _ in range(2 * blocks):
            found += [(planes, channels, 3, 3), (planes,), (planes,)]
            channels = planes
    found = found[:198]
    return [*found, (10, channels), (10,)]


def parameters(width):
    params = [torch.nn.Parameter(torch.randn(shape, device="npu")) for shape in shapes(width)]
    for param in params:
        param.grad = torch.randn_like(param)
    return params


def fused_step(name, width):
    kind, *_, options = TWINS.get(name) or OTHERS[name]
    return kind(parameters(width), **options).step


def plain_step(name, width, foreach):
    _, kind, options = TWINS.get(name, TWINS["AdamW"])
    return kind(parameters(width), foreach=foreach, **options).step


def unscale(width, combined):
    """Divides the gradients by a scale and looks for infinities, as a gradient scaler does after each backward pass.

    `combined`: on the flat gradient, after the check that all gradients are still in it."""
    params = parameters(width)
    found, inverse = torch.zeros((), device="npu"), torch.ones((), device="npu")
    flat = npu_combine_tensors([param.grad for param in params]) if combined else None

    def job():
        grads = [param.grad for param in params]
        if combined and is_combined_tensor_valid(flat, grads):
            grads = [flat]
        groups = {}
        for grad in grads:
            groups.setdefault((grad.device, grad.dtype), []).append(grad)
        for group in groups.values():
            torch._amp_foreach_non_finite_check_and_unscale_(group, found, inverse)

    return job
