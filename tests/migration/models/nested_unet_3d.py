"""Nested U-Net (UNet++) with 3D convolutions and deep supervision for the segmentation of volumes."""

import argparse
import os

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset

os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Blobs(Dataset):
    """Noisy volumes; the mask is a ball."""

    def __init__(self, count, size):
        generator = torch.Generator().manual_seed(5)
        axis = torch.arange(size, dtype=torch.float32)
        grid = torch.stack(torch.meshgrid(axis, axis, axis, indexing="ij"))
        self.items = []
        for _ in range(count):
            centre = torch.rand(3, 1, 1, 1, generator=generator) * size
            mask = ((grid - centre).pow(2).sum(0, keepdim=True) < (size / 3) ** 2).float()
            self.items.append((mask + 0.5 * torch.randn(1, size, size, size, generator=generator), mask))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class VGGBlock(nn.Module):
    def __init__(self, in_channels, middle_channels, out_channels):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv3d(in_channels, middle_channels, 3, padding=1)
        self.bn1 = nn.BatchNorm3d(middle_channels)
        self.conv2 = nn.Conv3d(middle_channels, out_channels, 3, padding=1)
        self.bn2 = nn.BatchNorm3d(out_channels)

    def forward(self, x):
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)))


class NestedUNet3D(nn.Module):
    def __init__(self, filters, deep_supervision=True):
        super().__init__()
        self.depth = len(filters)
        self.deep_supervision = deep_supervision
        self.pool = nn.MaxPool3d(2, 2)
        self.up = nn.Upsample(scale_factor=2, mode="trilinear", align_corners=True)
        self.nodes = nn.ModuleDict()
        for i, width in enumerate(filters):
            self.nodes[f"{i}_0"] = VGGBlock(filters[i - 1] if i else 1, width, width)
            for j in range(1, self.depth - i):
                self.nodes[f"{i}_{j}"] = VGGBlock(width * j + filters[i + 1], width, width)
        heads = self.depth - 1 if deep_supervision else 1
        self.heads = nn.ModuleList(nn.Conv3d(filters[0], 1, kernel_size=1) for _ in range(heads))

    def forward(self, x):
        values = {}
        for i in range(self.depth):
            values[i, 0] = self.nodes[f"{i}_0"](x if i == 0 else self.pool(values[i - 1, 0]))
            for j in range(1, i + 1):
                row = i - j
                before = [values[row, k] for k in range(j)]
                values[row, j] = self.nodes[f"{row}_{j}"](torch.cat([*before, self.up(values[row + 1, j - 1])], 1))
        if self.deep_supervision:
            return [head(values[0, j + 1]) for j, head in enumerate(self.heads)]
        return [self.heads[0](values[0, self.depth - 1])]


class BCEDiceLoss(nn.Module):
    def forward(self, logits, target):
        bce = nn.functional.binary_cross_entropy_with_logits(logits, target)
        probability = torch.sigmoid(logits).flatten(1)
        target = target.flatten(1)
        dice = (2 * (probability * target).sum(1) + 1e-5) / (probability.sum(1) + target.sum(1) + 1e-5)
        return 0.5 * bce + 1 - dice.mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", default=2, type=int)
    parser.add_argument("--size", default=8, type=int)
    parser.add_argument("--filters", default=[4, 8, 16, 32], type=int, nargs="+")
    parser.add_argument("--amp", action="store_true", help="mixed precision")
    config = parser.parse_args()

    torch.manual_seed(0)
    if torch.cuda.is_available():
        torch.cuda.manual_seed(0)
    model = NestedUNet3D(config.filters).to(device)
    criterion = BCEDiceLoss().to(device)
    optimizer = optim.Adam(model.parameters(), lr=3e-4, weight_decay=1e-4)
    scaler = torch.cuda.amp.GradScaler(enabled=config.amp)
    train_loader = DataLoader(Blobs(3 * config.batch_size, config.size), config.batch_size, num_workers=0, pin_memory=True)
    for step, (volume, mask) in enumerate(train_loader):
        volume, mask = volume.to(device, non_blocking=True), mask.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=config.amp):
            outputs = model(volume)
            loss = sum(criterion(output, mask) for output in outputs) / len(outputs)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step} loss {loss.item():.6f}")
