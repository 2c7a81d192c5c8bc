"""Residual attention network for volumes: trunk and soft mask branches with 3D convolutions, mixed attention."""

import argparse

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ResidualUnit(nn.Module):
    """Pre-activation bottleneck."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        middle = outputs // 4
        self.body = nn.Sequential(
            nn.BatchNorm3d(inputs),
            nn.ReLU(inplace=True),
            nn.Conv3d(inputs, middle, 1, bias=False),
            nn.BatchNorm3d(middle),
            nn.ReLU(inplace=True),
            nn.Conv3d(middle, middle, 3, stride, 1, bias=False),
            nn.BatchNorm3d(middle),
            nn.ReLU(inplace=True),
            nn.Conv3d(middle, outputs, 1, bias=False),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv3d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        return self.shortcut(x) + self.body(x.clone())


class AttentionModule(nn.Module):
    """(1 + M(x)) * T(x): the mask M has one value per channel and voxel."""

    def __init__(self, channels):
        super().__init__()
        self.first = ResidualUnit(channels, channels)
        self.trunk = nn.Sequential(ResidualUnit(channels, channels), ResidualUnit(channels, channels))
        self.pool = nn.MaxPool3d(3, stride=2, padding=1)
        self.down = ResidualUnit(channels, channels)
        self.skip = ResidualUnit(channels, channels)
        self.bottom = nn.Sequential(ResidualUnit(channels, channels), ResidualUnit(channels, channels))
        self.up = ResidualUnit(channels, channels)
        self.mask = nn.Sequential(
            nn.BatchNorm3d(channels),
            nn.ReLU(inplace=True),
            nn.Conv3d(channels, channels, 1, bias=False),
            nn.BatchNorm3d(channels),
            nn.ReLU(inplace=True),
            nn.Conv3d(channels, channels, 1, bias=False),
            nn.Sigmoid(),
        )
        self.last = ResidualUnit(channels, channels)

    def forward(self, x):
        x = self.first(x)
        trunk = self.trunk(x)
        half = self.down(self.pool(x))
        quarter = self.bottom(self.pool(half))
        resized = F.interpolate(quarter, size=half.shape[2:], mode="trilinear", align_corners=False)
        half = self.up(resized + self.skip(half))
        mask = self.mask(F.interpolate(half, size=x.shape[2:], mode="trilinear", align_corners=False))
        return self.last((1 + mask) * trunk)


class AttentionNet3D(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv3d(1, width, 3, padding=1, bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(inplace=True),
            ResidualUnit(width, 2 * width),
            AttentionModule(2 * width),
            ResidualUnit(2 * width, 4 * width, stride=2),
            AttentionModule(4 * width),
            nn.BatchNorm3d(4 * width),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool3d(1),
        )
        self.fc = nn.Linear(4 * width, classes)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


def main():
    parser = argparse.ArgumentParser(description="3D AttentionNet")
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    cudnn.benchmark = True

    volumes = torch.randn(args.steps * args.batch_size, 1, 8, 16, 16)
    labels = torch.randint(0, 10, (len(volumes),))
    loader = DataLoader(TensorDataset(volumes, labels), args.batch_size, shuffle=True, pin_memory=True, drop_last=True)

    model = AttentionNet3D(args.width, 10).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    model.train()
    for step, (volume, label) in enumerate(loader):
        volume, label = volume.cuda(non_blocking=True), label.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = criterion(model(volume), label)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
