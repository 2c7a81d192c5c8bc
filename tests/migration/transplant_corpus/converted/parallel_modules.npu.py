import torch_npu
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

rank = 0
model = torch.nn.Linear(2, 2).npu(rank)
model = DDP(model, device_ids=[rank], output_device=f"npu:{rank}")
model = torch.nn.DataParallel(model, device_ids=[0, 1]).npu()
