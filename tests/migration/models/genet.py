"""GENet: a residual network with gather-excite units. The gather operator is a chain of strided depthwise convolutions."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class GatherExcite(nn.Module):
    """extent 0: one value per channel (GE-theta); otherwise the extent is the downsampling of the gather operator."""

    def __init__(self, channels, extent, size):
        super().__init__()
        if extent == 0:
            self.gather = nn.Sequential(
                nn.Conv2d(channels, channels, size, groups=channels, bias=False), nn.BatchNorm2d(channels)
            )
        else:
            layers = []
            while extent > 1:
                layers += [nn.Conv2d(channels, channels, 3, 2, 1, groups=channels, bias=False), nn.BatchNorm2d(channels)]
                extent //= 2
                if extent > 1:
                    layers.append(nn.ReLU(inplace=True))
            self.gather = nn.Sequential(*layers)

    def forward(self, x):
        gathered = self.gather(x)
        if gathered.shape[-1] != 1:
            gathered = F.interpolate(gathered, size=x.shape[2:], mode="nearest")
        return x * torch.sigmoid(gathered)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride, extent, size):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.excite = GatherExcite(outputs, extent, size)
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.excite(self.bn2(self.conv2(out)))
        return F.relu(out + self.shortcut(x))


class GENet(nn.Module):
    def __init__(self, blocks, width, extent, size=32, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers, inputs = [], width
        for stage, count in enumerate(blocks):
            outputs = width * 2**stage
            for index in range(count):
                stride = 2 if stage and not index else 1
                size //= stride
                layers.append(Block(inputs, outputs, stride, extent, size))
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.layers(F.relu(self.bn1(self.conv1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).view(x.size(0), -1))


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, predicted = output.topk(max(topk), 1, True, True)
        correct = predicted.t().eq(target.view(1, -1).expand(max(topk), -1))
        return [correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0)) for k in topk]


parser = argparse.ArgumentParser(description="GENet on small images")
parser.add_argument("--depth", default=1, type=int, help="blocks per stage")
parser.add_argument("--width", default=8, type=int)
parser.add_argument("--extent", default=4, type=int, choices=[0, 2, 4, 8])
parser.add_argument("--lr", default=0.1, type=float)
parser.add_argument("--batch-size", default=8, type=int)
parser.add_argument("--gpu", default=0, type=int)


def train(loader, model, criterion, optimizer, args):
    losses, top1, top5, batch_time = AverageMeter(), AverageMeter(), AverageMeter(), AverageMeter()
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.cuda(args.gpu, non_blocking=True)
        target = target.cuda(args.gpu, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1[0].item(), images.size(0))
        top5.update(acc5[0].item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        batch_time.update(time.time() - end)
        end = time.time()
        print(f"step {i} loss {loss.item():.6f}")
    print(f"Acc@1 {top1.avg:.2f} Acc@5 {top5.avg:.2f}")


def main():
    args = parser.parse_args()
    torch.manual_seed(42)
    torch.cuda.manual_seed_all(42)
    torch.cuda.set_device(args.gpu)
    model = GENet([args.depth] * 3, args.width, args.extent)
    model = model.cuda(args.gpu)
    criterion = nn.CrossEntropyLoss().cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4)
    images, target = torch.randn(3 * args.batch_size, 3, 32, 32), torch.randint(0, 10, (3 * args.batch_size,))
    train(DataLoader(TensorDataset(images, target), args.batch_size, pin_memory=True), model, criterion, optimizer, args)


if __name__ == "__main__":
    main()
