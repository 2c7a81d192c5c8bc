import torch as t
import torch.cuda as tc
from torch import cuda as gpu

c = t.cuda
print(c.is_available(), tc.device_count(), gpu.current_device(), t.cuda.is_initialized())
