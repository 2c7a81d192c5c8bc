"""A small GPT of the usual form: fused AdamW, GradScaler, clipped gradients, a checkpoint. Prints the losses and a text."""

import io
import json
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
device_type = "cuda" if "cuda" in device else "cpu"
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in self.qkv(self.first(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, time, width))
        return x + self.mlp(self.second(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=29, width=32, length=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, ids, targets=None):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        logits = self.head(self.norm(self.blocks(x)))
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())


text = torch.arange(500) * 7 % 29


def batch(step):
    starts = [(step * 131 + row * 57) % 480 for row in range(8)]
    x, y = (torch.stack([text[start + shift : start + shift + 16] for start in starts]) for shift in (0, 1))
    if device_type == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x, y


model = GPT().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), fused=device_type == "cuda")
scaler = torch.amp.GradScaler(device_type, enabled=device_type == "cuda")
context = torch.autocast(device_type=device_type, dtype=torch.float32, enabled=False) if device_type == "cuda" else nullcontext()
losses = []
for step in range(8):
    for group in optimizer.param_groups:
        group["lr"] = 3e-3 * min(1, (step + 1) / 4)
    with context:
        _, loss = model(*batch(step))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item())
file = io.BytesIO()
torch.save(
    {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "device": str(next(model.parameters()).device)}, file
)
file.seek(0)
checkpoint = torch.load(file, map_location=device)
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])
ids = torch.zeros(1, 1, dtype=torch.long, device=device)
with torch.no_grad():
    for _ in range(8):
        ids = torch.cat((ids, model(ids)[0][:, -1:].argmax(-1)), 1)
print(json.dumps([losses, ids.tolist()]))
