import torch_npu
from torch import *

d = device("npu")
x = zeros(2, device="npu:1")
