"""MNASNet 1.3 with automatic mixed precision (--amp), gradient clipping and a cosine schedule."""

import argparse

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import mnasnet1_3


def parse():
    parser = argparse.ArgumentParser(description="MNASNet 1.3")
    parser.add_argument("--amp", action="store_true", help="use torch.cuda.amp")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.0001)
    parser.add_argument("--clip", type=float, default=5.0)
    return parser.parse_args()


def main():
    args = parse()
    assert torch.backends.cudnn.enabled, "Amp requires cudnn backend to be enabled."
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(108)
    model = mnasnet1_3(weights=None, num_classes=10, dropout=0.0).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=args.lr, alpha=0.9, eps=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    scaler = GradScaler(enabled=args.amp)
    data = TensorDataset(torch.randn(3 * args.batch_size, 3, 64, 64), torch.randint(10, (3 * args.batch_size,)))
    loader = DataLoader(data, args.batch_size, shuffle=True, pin_memory=True, drop_last=True)

    model.train()
    for step, (image, target) in enumerate(loader):
        image, target = image.cuda(non_blocking=True), target.cuda(non_blocking=True)
        with autocast(enabled=args.amp):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print(f"step {step} loss {loss.item():.6f}")
    print(f"peak memory {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
