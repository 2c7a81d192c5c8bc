import torch_npu
import torch

model = torch.nn.Linear(4, 2)
images = torch.randn(2, 4)
CALCULATE_DEVICE = "npu:0"
torch.npu.set_device(CALCULATE_DEVICE)
model = model.npu()
model = model.to(CALCULATE_DEVICE)
images = images.to(CALCULATE_DEVICE)
