"""Mixed precision by the names of CUDA, after the one line of the automatic migration."""

import torch
from torch import nn
from torch_npu.contrib import transfer_to_npu  # noqa: F401


def make_model(in_size, out_size, num_layers):
    layers = []
    for _ in range(num_layers - 1):
        layers += [nn.Linear(in_size, in_size), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(in_size, out_size)).cuda()


in_size, out_size, num_layers, epochs = 64, 8, 3, 3
data = [torch.randn(16, in_size, device="cuda") for _ in range(4)]
targets = [torch.randn(16, out_size, device="cuda") for _ in range(4)]
loss_fn = nn.MSELoss().cuda()

use_amp = True
net = make_model(in_size, out_size, num_layers)
opt = torch.optim.SGD(net.parameters(), lr=0.001)
scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
before = [parameter.clone() for parameter in net.parameters()]

for _ in range(epochs):
    for input, target in zip(data, targets, strict=True):
        with torch.autocast(device_type="cuda", dtype=torch.float16, enabled=use_amp):
            output = net(input)
            loss = loss_fn(output, target)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()

assert output.dtype == torch.float16 and loss.isfinite()
assert not any(torch.equal(one, other) for one, other in zip(before, net.parameters(), strict=True))
