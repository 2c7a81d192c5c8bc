"""Inspecting a network: hooks on every module, batch norm statistics, and parameter gradients."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10)).npu()
criterion = nn.CrossEntropyLoss().npu()
input_tensor = torch.randn(4, 3, 32, 32).npu()
target = torch.randint(0, 10, (4,)).to(torch.int32).npu()
seen = []


def hook_func(name):
    def hook_function(module, inputs, outputs):
        seen.append(name)
        assert all(
            each.is_npu for each in (*inputs, *(outputs if isinstance(outputs, tuple) else (outputs,))) if each is not None
        )

    return hook_function


for name, module in model.named_modules():
    module.register_forward_hook(hook_func("[forward]: " + name))
    module.register_full_backward_hook(hook_func("[backward]: " + name))

criterion(model(input_tensor), target).backward()
names = [name for name, _ in model.named_modules()]
assert sorted(seen) == sorted([f"[forward]: {name}" for name in names] + [f"[backward]: {name}" for name in names])

for name, module in model.named_modules():
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        print("[BN_buffer]: " + name, module.running_mean, module.running_var)
        assert module.running_mean.abs().sum() > 0
    for parameter in module.parameters(recurse=False):
        print("[grad]: " + name, parameter.grad.abs().mean())
