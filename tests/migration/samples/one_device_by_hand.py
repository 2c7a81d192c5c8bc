"""A program ported to one NPU by hand: model and data are moved by .npu() and by .to()."""

import torch

CALCULATE_DEVICE = "npu:0"
torch.npu.set_device(CALCULATE_DEVICE)

model = torch.nn.Linear(4, 2)
images, target = torch.randn(2, 4), torch.tensor([0, 1])

model = model.npu()
model = model.to(CALCULATE_DEVICE)
images = images.to(CALCULATE_DEVICE)
target = target.to(CALCULATE_DEVICE)
assert model(images).is_npu and target.is_npu
