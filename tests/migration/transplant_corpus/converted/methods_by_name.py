import operator

import torch

x = torch.ones(2)
y = getattr(x, "cuda")()
z = list(map(operator.methodcaller("cuda"), [x]))
w = list(map(torch.Tensor.cuda, [x]))
if hasattr(torch, "cuda") and getattr(torch, "cuda").is_available():
    print(getattr(torch.cuda, "device_count")())
