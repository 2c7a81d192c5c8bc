import torch_npu
from torch import npu, device, nn

if npu.is_available():
    npu.manual_seed_all(1)
    model = nn.Linear(2, 2).npu()


def name(cuda):
    return cuda.is_available()  # a parameter
