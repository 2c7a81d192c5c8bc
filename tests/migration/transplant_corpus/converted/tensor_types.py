import torch

use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor
torch.set_default_tensor_type("torch.cuda.FloatTensor")
x = torch.ones(2).type("torch.cuda.HalfTensor")
print(x.type() == "torch.cuda.HalfTensor")
