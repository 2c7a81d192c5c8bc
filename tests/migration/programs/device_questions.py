"""Old and new ways to test whether a program runs on CUDA. Prints the answers and the losses."""

import json
import os
import time

import torch
from torch import nn

use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
LongTensor = torch.cuda.LongTensor if use_cuda else torch.LongTensor


def select_device():
    if not use_cuda:
        return torch.device("cpu")
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    properties = torch.cuda.get_device_properties(0)
    assert properties.major >= 7 and (properties.major, properties.minor) == torch.cuda.get_device_capability(0)
    assert f"{properties.name}, {properties.total_memory / 2**20:.0f}MiB"
    return torch.device("cuda:0")


def time_now(device):
    if "cuda" in str(device):
        torch.cuda.synchronize()
    return time.time()


device = select_device()
torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.RMSprop(actor.parameters(), lr=1e-2)
answers = {}
weight = next(actor.parameters())
answers["on the device"] = weight.is_cuda == use_cuda and isinstance(weight.data, FloatTensor)
answers["by type"] = weight.type() == ("torch.cuda.FloatTensor" if use_cuda else "torch.FloatTensor")
answers["by text"] = str(device) == ("cuda:0" if use_cuda else "cpu") and str(device).startswith(("cuda", "cpu"))
answers["by kind"] = weight.device.type in ("cuda", "cpu") and not weight.device.type.startswith("xpu")
losses = []
start = time_now(device)
for step in range(5):
    states = FloatTensor([[step, 1, -1], [1, step, 0.5]]) / 5
    actions = LongTensor([[0], [1]])
    loss = -torch.log_softmax(actor(states), 1).gather(1, actions).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert time_now(device) >= start
print(json.dumps([answers, losses]))
