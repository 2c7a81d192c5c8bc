# ruff: noqa
# fmt: off
import torch, torch_npu
import torch.nn as nn
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8*30*30, 10)).npu()
criterion = nn.CrossEntropyLoss().npu()
loss_func = lambda out, target=None: out.float().pow(2).mean() if target is None else criterion(out, target)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
input_tensor = torch.randn(4, 3, 32, 32).npu()
target = torch.randint(0, 10, (4,)).to(torch.int32).npu()
# 添加record_shapes参数，获取算子输入tensor的shape信息
with torch.autograd.profiler.profile(use_npu=True, record_shapes=True) as prof:
    loss_func(model(input_tensor)).backward()
print(prof)
