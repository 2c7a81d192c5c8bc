import operator

import torch_npu
import torch

x = torch.ones(2)
y = getattr(x, "npu")()
z = list(map(operator.methodcaller("npu"), [x]))
w = list(map(torch.Tensor.npu, [x]))
if hasattr(torch, "npu") and getattr(torch, "npu").is_available():
    print(getattr(torch.npu, "device_count")())
