import torch

rank = 1
device = f"cuda:{rank}"
torch.cuda.set_device(f"cuda:{rank % torch.cuda.device_count()}")
x = torch.ones(2, device=f'cuda:{rank}')
print(f"rank {rank} uses cuda:{rank}, {torch.cuda.memory_allocated()} bytes")
