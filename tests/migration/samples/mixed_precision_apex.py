"""Mixed precision by apex with combined gradients, then the same in float32 on the CPU."""

import copy

import torch
from apex import amp
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))
images, target = torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,))
criterion = nn.CrossEntropyLoss()

twin = copy.deepcopy(model)
its_optimizer = torch.optim.SGD(twin.parameters(), lr=0.01)
criterion(twin(images), target).backward()
its_optimizer.step()

model = model.npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer = amp.initialize(model, optimizer, combine_grad=True, dynamic_init_scale=1024.0)
loss = criterion(model(images.npu()), target.to(torch.int32).npu())
with amp.scale_loss(loss, optimizer) as scaled_loss:
    scaled_loss.backward()
optimizer.step()
amp.uninitialize()

for mine, its in zip(model.parameters(), twin.parameters(), strict=True):
    torch.testing.assert_close(mine.detach().cpu(), its.detach(), rtol=1e-2, atol=1e-3)
