import torch

model = torch.nn.Linear(4, 2)
images = torch.randn(2, 4)
CALCULATE_DEVICE = "cuda:0"
torch.cuda.set_device(CALCULATE_DEVICE)
model = model.cuda()
model = model.to(CALCULATE_DEVICE)
images = images.to(CALCULATE_DEVICE)
