import cupy
import torch
from numba import cuda


@cuda.jit
def kernel(x):
    i = cuda.grid(1)
    x[i] = 0


cupy.cuda.Device(0).use()
x = torch.ones(1).cuda()
y = cupy.asarray([1]).device
