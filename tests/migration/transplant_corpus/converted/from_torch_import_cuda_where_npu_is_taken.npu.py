import torch_npu
from torch import npu as cuda

npu = 5
print(cuda.is_available(), npu)
