"""Does a network compute on npu what it computes on the CPU? `Module.npu()` moves the module itself: compare with a copy."""

import copy

import torch
from torch import nn

input_tensor_cpu = torch.randn(4, 3, 32, 32)
model_cpu = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()

input_tensor_npu = input_tensor_cpu.npu()
model_npu = copy.deepcopy(model_cpu).npu()

output_cpu = model_cpu(input_tensor_cpu)
output_npu = model_npu(input_tensor_npu)
compute_result = (output_cpu - output_npu.cpu()).abs().mean()
print(compute_result)
assert compute_result < 1e-4
