"""VGG-13 with batch normalization with mixup, label smoothing, gradient accumulation, and an average of the weights."""

import argparse
import random
from copy import deepcopy

import numpy as np
import torch
import torch.nn as nn
import torchvision
from torch.utils.data import DataLoader, TensorDataset


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class ModelEma:
    def __init__(self, model, decay):
        self.module = deepcopy(model).eval()
        self.decay = decay
        for parameter in self.module.parameters():
            parameter.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for ema, value in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            if ema.dtype.is_floating_point:
                ema.mul_(self.decay).add_(value.detach(), alpha=1 - self.decay)
            else:
                ema.copy_(value)


def mixup(images, labels, alpha, device):
    weight = np.random.beta(alpha, alpha)
    index = torch.randperm(images.size(0)).to(device)
    return weight * images + (1 - weight) * images[index], labels, labels[index], weight


def main(config):
    set_seed(config.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torchvision.models.vgg13_bn(num_classes=config.classes, dropout=0.0)
    model = model.to(device)
    ema = ModelEma(model, decay=0.99)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.lr, momentum=0.9, weight_decay=1e-4)
    count = 3 * config.accumulate * config.micro_batch
    images, labels = torch.randn(count, 3, 64, 64), torch.randint(0, config.classes, (count,))
    loader = DataLoader(TensorDataset(images, labels), config.micro_batch, pin_memory=True)
    model.train()
    total = 0.0
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        x, first, second, weight = mixup(x, y, 0.2, device)
        output = model(x)
        loss = weight * criterion(output, first) + (1 - weight) * criterion(output, second)
        (loss / config.accumulate).backward()
        total += loss.item() / config.accumulate
        if (i + 1) % config.accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            ema.update(model)
            print(f"step {i // config.accumulate} loss {total:.6f}")
            total = 0.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.0003)
    parser.add_argument("--seed", type=int, default=122)
    main(parser.parse_args())
