"""Profiles by the names of CUDA. Prints the loss."""

import json
import os
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Linear(8, 4).to(device)
x = torch.randn(16, 8).to(device)


def work():
    with record_function("work"):
        loss = model(x).pow(2).mean()
        loss.backward()
    return loss


with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as prof:
    loss = work()
for order in ("cuda_time_total", "self_cuda_time_total", "cpu_time_total"):
    assert "work" in prof.key_averages().table(sort_by=order, row_limit=50)
with profile(schedule=schedule(wait=1, warmup=1, active=1), on_trace_ready=lambda prof: None) as prof:
    for _ in range(3):
        work()
        prof.step()
with torch.autograd.profiler.profile(use_cuda=torch.cuda.is_available()) as prof:
    work()
assert "work" in prof.key_averages().table(sort_by="self_cuda_time_total")
with tempfile.TemporaryDirectory() as folder:
    prof.export_chrome_trace(os.path.join(folder, "trace.json"))
print(json.dumps(loss.item()))
