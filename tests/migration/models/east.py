"""EAST scene text detector: VGG16-BN extractor, U-shaped merging, rotated boxes (four distances and an angle)."""

import argparse
import math

import torch
import torch.nn as nn
from torch.optim import lr_scheduler
from torch.utils import data

CONFIG = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]


class Extractor(nn.Module):
    def __init__(self, divisor):
        super().__init__()
        layers, channels = [], 3
        for value in CONFIG:
            if value == "M":
                layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
                continue
            outputs = value // divisor
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
            channels = outputs
        self.features = nn.Sequential(*layers)

    def forward(self, x):
        out = []
        for layer in self.features:
            x = layer(x)
            if isinstance(layer, nn.MaxPool2d):
                out.append(x)
        return out[1:]


class Merge(nn.Module):
    def __init__(self, divisor):
        super().__init__()
        sizes = [(1024, 128), (384, 64), (192, 32)]
        self.blocks = nn.ModuleList()
        for inputs, outputs in sizes:
            inputs, outputs = inputs // divisor, outputs // divisor
            self.blocks.append(
                nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(),
                    nn.Conv2d(outputs, outputs, 3, padding=1),
                    nn.BatchNorm2d(outputs),
                    nn.ReLU(),
                )
            )
        last = 32 // divisor
        self.last = nn.Sequential(nn.Conv2d(last, last, 3, padding=1), nn.BatchNorm2d(last), nn.ReLU())
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        y = x[3]
        for block, skip in zip(self.blocks, (x[2], x[1], x[0]), strict=True):
            y = nn.functional.interpolate(y, scale_factor=2, mode="bilinear", align_corners=True)
            y = block(torch.cat((y, skip), 1))
        return self.last(y)


class EAST(nn.Module):
    def __init__(self, divisor, scope=64):
        super().__init__()
        self.extractor, self.merge = Extractor(divisor), Merge(divisor)
        self.score = nn.Conv2d(32 // divisor, 1, 1)
        self.location = nn.Conv2d(32 // divisor, 4, 1)
        self.angle = nn.Conv2d(32 // divisor, 1, 1)
        self.scope = scope

    def forward(self, x):
        merged = self.merge(self.extractor(x))
        location = torch.sigmoid(self.location(merged)) * self.scope
        angle = (torch.sigmoid(self.angle(merged)) - 0.5) * math.pi
        return torch.sigmoid(self.score(merged)), torch.cat((location, angle), 1)


def dice_loss(truth, predicted):
    return 1 - 2 * torch.sum(truth * predicted) / (torch.sum(truth) + torch.sum(predicted) + 1e-5)


class Loss(nn.Module):
    def __init__(self, weight_angle=10):
        super().__init__()
        self.weight_angle = weight_angle

    def forward(self, truth_score, score, truth_geo, geo):
        d1, d2, d3, d4, angle = torch.split(geo, 1, 1)
        t1, t2, t3, t4, truth_angle = torch.split(truth_geo, 1, 1)
        union = (t1 + t2) * (t3 + t4) + (d1 + d2) * (d3 + d4)
        inter = (torch.min(d3, t3) + torch.min(d4, t4)) * (torch.min(d1, t1) + torch.min(d2, t2))
        iou = -torch.log((inter + 1.0) / (union - inter + 1.0))
        turned = 1 - torch.cos(angle - truth_angle)
        total = torch.sum(truth_score)
        geometry = torch.sum(iou * truth_score) / total + self.weight_angle * torch.sum(turned * truth_score) / total
        return geometry + dice_loss(truth_score, score)


class TextDataset(data.Dataset):
    def __init__(self, length, size):
        self.length, self.size = length, size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator()
        generator.manual_seed(index)
        small = self.size // 4
        image = torch.randn(3, self.size, self.size, generator=generator)
        score = (torch.rand(1, small, small, generator=generator) > 0.6).float()
        geo = torch.rand(5, small, small, generator=generator)
        geo[:4] *= 40
        geo[4] -= 0.5
        return image, score, geo


def train(args):
    trainset = TextDataset(args.batch_size * 3, args.size)
    loader = data.DataLoader(trainset, batch_size=args.batch_size, shuffle=False, pin_memory=True, drop_last=True)
    criterion = Loss()
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = EAST(args.divisor)
    data_parallel = False
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
        data_parallel = True
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)
    model.train()
    for i, (image, truth_score, truth_geo) in enumerate(loader):
        image, truth_score, truth_geo = image.to(device), truth_score.to(device), truth_geo.to(device)
        score, geo = model(image)
        loss = criterion(truth_score, score, truth_geo, geo)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {i} loss {loss.item():.6f}")
    state = model.module.state_dict() if data_parallel else model.state_dict()
    torch.save(state, args.checkpoint)
    EAST(args.divisor).load_state_dict(torch.load(args.checkpoint, map_location=device))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--divisor", type=int, default=8, help="divides the widths of the paper's network")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--checkpoint", default="east.pth")
    torch.manual_seed(3)
    train(parser.parse_args())
