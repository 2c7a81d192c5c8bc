"""A small model: trained by torch in one process on the CPU, or by deepspeed with ZeRO stage 2 on ranks.

    python deepspeed_ranks.py cpu
    torchrun --nproc-per-node 2 deepspeed_ranks.py npu     # rank 0 prints one line of JSON

The program does not name npu: deepspeed detects it."""

import json
import os
import sys

import torch
from torch import nn

DEVICE, WORLD = sys.argv[1], int(os.environ.get("WORLD_SIZE", "1"))
RANK, ROWS, STEPS, WIDTH = int(os.environ.get("RANK", "0")), 8, 6, 12

torch.manual_seed(0)
model = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.GELU(), nn.Linear(24, 3))
generator = torch.Generator().manual_seed(1)
inputs = torch.randn(STEPS, ROWS, WIDTH, generator=generator).chunk(WORLD, 1)[RANK]
targets = torch.randint(3, (STEPS, ROWS), generator=generator).chunk(WORLD, 1)[RANK]
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
if DEVICE == "cpu":
    for x, y in zip(inputs, targets, strict=True):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
else:
    import deepspeed

    config = {
        "train_micro_batch_size_per_gpu": ROWS // WORLD,
        "gradient_clipping": 1.0,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 2},
    }
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    assert engine.device.type == DEVICE and engine.zero_optimization_stage() == 2 and engine.world_size == WORLD
    for x, y in zip(inputs, targets, strict=True):
        loss = nn.functional.cross_entropy(engine(x.to(engine.device)), y.to(engine.device))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        torch.distributed.all_reduce(mean)
        losses.append(mean.item() / WORLD)
if RANK == 0:
    print(json.dumps({"losses": losses, "weights": {name: value.sum().item() for name, value in model.named_parameters()}}))
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
