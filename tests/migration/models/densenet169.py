"""DenseNet-169 on all GPUs of the machine with DataParallel."""

import argparse

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import densenet169


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.0001)
    parser.add_argument("--warmup", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(103)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(103)

    net = densenet169(num_classes=10)
    gpus = list(range(torch.cuda.device_count()))
    print(f"Let's use {len(gpus)} GPUs!")
    net = nn.DataParallel(net, device_ids=gpus or None)
    net = net.cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warmup))
    count = 3 * args.batch_size
    dataset = TensorDataset(torch.randn(count, 3, 64, 64), torch.randint(0, 10, (count,)))
    for step, (images, labels) in enumerate(DataLoader(dataset, args.batch_size, pin_memory=True)):
        labels = labels.cuda(non_blocking=True)
        outputs = net(images.cuda(non_blocking=True))
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {step} loss {loss.item():.6f}")
    torch.save(net.module.state_dict(), "densenet169.pth")
    restored = densenet169(num_classes=10).cuda()
    restored.load_state_dict(torch.load("densenet169.pth", map_location={"cuda:1": "cuda:0"}))


if __name__ == "__main__":
    main()
