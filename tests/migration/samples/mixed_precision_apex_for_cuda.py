"""apex by the names of CUDA, after the one line of the automatic migration."""

import torch
from apex import amp
from torch_npu.contrib import transfer_to_npu  # noqa: F401

D_in, D_out = 64, 8
model = torch.nn.Linear(D_in, D_out).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
before = model.weight.detach().clone()
loss = model(torch.randn(4, D_in).cuda()).float().pow(2).mean()
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
assert model.weight.is_cuda and not model.weight.equal(before)
