"""lightning trains a small model: whole batches in one process, or parts of them on the ranks of torchrun.

python lightning_ranks.py cpu auto
torchrun --nproc-per-node 2 lightning_ranks.py npu ddp_npu     # rank 0 prints one line of JSON
"""

import json
import os
import sys
import tempfile

import lightning
import torch
import torch_npu.contrib.lightning  # noqa: F401
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

DEVICE, STRATEGY = sys.argv[1:]
WORLD, ROWS, STEPS = int(os.environ.get("WORLD_SIZE", "1")), 8, 6
LOSSES = []


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 3))

    def training_step(self, batch, _):
        assert batch[0].device.type == DEVICE
        loss = nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        LOSSES.append(self.all_gather(loss.detach()).mean().item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


torch.manual_seed(0)
model = Model()
generator = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(ROWS * STEPS, 12, generator=generator), torch.randint(3, (ROWS * STEPS,), generator=generator))
with tempfile.TemporaryDirectory() as folder:
    trainer = lightning.Trainer(
        accelerator=DEVICE,
        devices=WORLD,
        strategy=STRATEGY,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        use_distributed_sampler=False,  # keeps the order of the rows of one process
    )
    sampler = DistributedSampler(data, WORLD, int(os.environ.get("RANK", "0")), shuffle=False)
    trainer.fit(model, DataLoader(data, batch_size=ROWS // WORLD, sampler=sampler))
weights = {name: value.detach().sum().item() for name, value in model.named_parameters()}
if trainer.is_global_zero:
    print(json.dumps({"losses": LOSSES, "weights": weights}))
