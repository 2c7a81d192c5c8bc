import torch
from torch.nn.parallel import DistributedDataParallel as DDP

rank = 0
model = torch.nn.Linear(2, 2).cuda(rank)
model = DDP(model, device_ids=[rank], output_device=f"cuda:{rank}")
model = torch.nn.DataParallel(model, device_ids=[0, 1]).cuda()
