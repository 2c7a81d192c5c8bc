import torch_npu
import torch
x = torch.ones(1).npu()