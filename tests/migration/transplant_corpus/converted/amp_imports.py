import torch
from torch.cuda import amp
from torch.cuda.amp import GradScaler, autocast

scaler = GradScaler()
with autocast(), amp.autocast(), torch.cuda.amp.autocast(enabled=False), torch.autocast("cuda"):
    pass
scaler2 = torch.amp.GradScaler("cuda")
