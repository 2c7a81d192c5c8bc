import torch_npu
import torch
from torch.profiler import ProfilerActivity, profile

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU]):
    pass
with torch.autograd.profiler.profile(use_npu=True) as prof:
    pass
print(prof.key_averages().table(sort_by="self_cuda_time_total"))
