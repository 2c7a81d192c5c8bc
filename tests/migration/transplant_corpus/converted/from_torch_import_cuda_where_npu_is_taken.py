from torch import cuda

npu = 5
print(cuda.is_available(), npu)
