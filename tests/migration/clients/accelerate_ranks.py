"""accelerate trains a small model: whole batches in one process, or parts of them on ranks, by DDP or FSDP2.

    python accelerate_ranks.py cpu plain
    torchrun --nproc-per-node 2 accelerate_ranks.py npu ddp|fsdp2     # rank 0 prints one line of JSON

The program does not name npu: accelerate detects it."""

import json
import os
import sys

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE, KIND = sys.argv[1:]
ROWS, STEPS, WIDTH = 8, 6, 12


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


plugin = None
if KIND == "fsdp2":
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Block"]
    )
accelerator = Accelerator(cpu=DEVICE == "cpu", fsdp_plugin=plugin)
assert accelerator.device.type == DEVICE
assert accelerator.num_processes == int(os.environ.get("WORLD_SIZE", "1"))
torch.manual_seed(0)
model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(1)
data = TensorDataset(
    torch.randn(ROWS * STEPS, WIDTH, generator=generator), torch.randint(3, (ROWS * STEPS,), generator=generator)
)
loader = DataLoader(data, batch_size=ROWS // accelerator.num_processes)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
losses = []
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
state = {name.removeprefix("module."): value.float().sum().item() for name, value in accelerator.get_state_dict(model).items()}
if accelerator.is_main_process:
    print(json.dumps({"losses": losses, "weights": state}))
accelerator.end_training()
