import torch_npu
import torch

rank = 1
device = f"npu:{rank}"
torch.npu.set_device(f"npu:{rank % torch.npu.device_count()}")
x = torch.ones(2, device=f'npu:{rank}')
print(f"rank {rank} uses cuda:{rank}, {torch.npu.memory_allocated()} bytes")
