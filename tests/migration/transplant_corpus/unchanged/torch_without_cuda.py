import torch

x = torch.ones(2) @ torch.ones(2)
device = torch.device("cpu")
