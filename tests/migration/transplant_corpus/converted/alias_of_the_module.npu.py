import torch_npu
import torch as t
import torch.npu as tc
from torch import npu as gpu

c = t.npu
print(c.is_available(), tc.device_count(), gpu.current_device(), t.npu.is_initialized())
