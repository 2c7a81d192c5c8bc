"""The pieces of timm's training program: prefetching on a stream of its own, scaler, moving average, schedule, in bfloat16.

python image_training.py cpu|npu     # prints one line of JSON"""

import json
import sys
from argparse import Namespace

import numpy as np
import timm
import torch
from timm.data.loader import PrefetchLoader, fast_collate
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler, init_distributed_device, random_seed

DEVICE = sys.argv[1]


def batches(device):
    """Images of three classes; the class is the brightest channel."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 48)
    images = random.integers(0, 80, (48, 3, 32, 32))
    images[np.arange(48), labels] += 120
    data = list(zip(images.astype(np.uint8), labels.tolist(), strict=True))
    loader = torch.utils.data.DataLoader(data, batch_size=16, collate_fn=fast_collate, pin_memory=DEVICE == "npu")
    return PrefetchLoader(loader, device=device)


device = init_distributed_device(Namespace(device=DEVICE, local_rank=0))
assert device.type == DEVICE
random_seed(0)
loader = batches(device)
model = timm.create_model("resnet10t", num_classes=3, zero_init_last=False).to(device, memory_format=torch.channels_last)
optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3)
schedule = CosineLRScheduler(optimizer, t_initial=3)
average, scaler = ModelEmaV3(model, decay=0.5, device=device), NativeScaler(device=device.type)
losses = []
for epoch in range(3):
    for images, labels in loader:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output = model(images.contiguous(memory_format=torch.channels_last))
            loss = torch.nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=5.0, parameters=model.parameters())
        average.update(model)
        losses.append(loss.item())
    schedule.step(epoch + 1)
assert losses[-1] < losses[0] / 2
print(json.dumps(losses))
