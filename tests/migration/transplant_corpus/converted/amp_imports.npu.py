import torch_npu
import torch
from torch.npu import amp
from torch.npu.amp import GradScaler, autocast

scaler = GradScaler()
with autocast(), amp.autocast(), torch.npu.amp.autocast(enabled=False), torch.autocast("npu"):
    pass
scaler2 = torch.amp.GradScaler("npu")
