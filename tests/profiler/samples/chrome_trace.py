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
# 使用ascend-pytorch适配的profile接口，即可获得，推荐只运行一个step
with torch.autograd.profiler.profile(use_npu=True) as prof:
    out = model(input_tensor)
    loss=loss_func(out)
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
# 打印profiler结果信息
print(prof)
# 导出chrome_trace文件到指定路径
output_path = './profile_data.json'
prof.export_chrome_trace(output_path)
