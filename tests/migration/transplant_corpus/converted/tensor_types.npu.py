import torch_npu
import torch

use_cuda = torch.npu.is_available()
FloatTensor = torch.npu.FloatTensor if use_cuda else torch.FloatTensor
torch.set_default_tensor_type("torch.npu.FloatTensor")
x = torch.ones(2).type("torch.npu.HalfTensor")
print(x.type() == "torch.npu.HalfTensor")
