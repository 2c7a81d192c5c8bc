"""A training program of the usual form: arguments, one GPU or none, epochs, a checkpoint, resumed. Prints its progress."""

import argparse
import json
import os
import random
import tempfile
import warnings

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--gpu", default=None, type=int)
parser.add_argument("--world-size", default=1, type=int)
parser.add_argument("--dist-backend", default="nccl")
parser.add_argument("--resume", default="")
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--seed", default=1, type=int)


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, count):
        self.sum += value * count
        self.count += count

    @property
    def average(self):
        return self.sum / self.count


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, best = output.topk(max(topk), 1, True, True)
        correct = best.t().eq(target.view(1, -1).expand_as(best.t()))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


def make_data():
    generator = torch.Generator().manual_seed(3)
    labels = torch.randint(0, 4, (96,), generator=generator)
    images = torch.randn(96, 3, 8, 8, generator=generator) * 0.3 + labels[:, None, None, None] * 0.5
    return torch.utils.data.TensorDataset(images, labels)


def run_epoch(loader, model, criterion, optimizer, args):
    losses, top1 = AverageMeter(), AverageMeter()
    for images, target in loader:
        if args.gpu is not None and torch.cuda.is_available():
            images = images.cuda(args.gpu, non_blocking=True)
            target = target.cuda(args.gpu, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        (acc1,) = accuracy(output, target)
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0].item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses.average, top1.average


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    cudnn.deterministic = True
    cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    if args.world_size > 1:
        dist.init_process_group(backend=args.dist_backend, init_method="env://", world_size=args.world_size, rank=0)
    net = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = nn.Sequential(*net, nn.Linear(8, 4))
    if not torch.cuda.is_available():
        warnings.warn("using CPU, this will be slow", stacklevel=1)
        criterion = nn.CrossEntropyLoss()
    else:
        torch.cuda.set_device(args.gpu)
        model = model.cuda(args.gpu)
        criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    loader = torch.utils.data.DataLoader(make_data(), batch_size=32, num_workers=0, pin_memory=torch.cuda.is_available())
    best, progress, path = 0.0, [], os.path.join(tempfile.mkdtemp(), "checkpoint.pth.tar")
    for epoch in range(args.epochs):
        progress.append(run_epoch(loader, model, criterion, optimizer, args))
        best = max(best, progress[-1][1])
        state = {"epoch": epoch + 1, "state_dict": model.state_dict(), "best": best, "optimizer": optimizer.state_dict()}
        torch.save(state, path)
    checkpoint = torch.load(path, map_location=f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
    model.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    progress.append(run_epoch(loader, model, criterion, optimizer, args))
    print(json.dumps(progress))


if __name__ == "__main__":
    main()
