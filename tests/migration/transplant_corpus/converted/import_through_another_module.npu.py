from .common import torch

x = torch.zeros(2).npu()
