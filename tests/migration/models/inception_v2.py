"""Inception v2 (BN-Inception): Inception blocks in which two 3x3 convolutions replace the 5x5 one, with batch normalization."""

import argparse
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")


class Conv(nn.Sequential):
    def __init__(self, inputs, outputs, kernel, stride=1):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2),
            nn.BatchNorm2d(outputs, affine=True),
            nn.ReLU(inplace=True),
        )


class Inception(nn.Module):
    """With stride 2 the block has no 1x1 branch, and its pooling branch has no convolution."""

    def __init__(self, inputs, one, three, double, pool, average=True, stride=1):
        super().__init__()
        branches = []
        if one:
            branches.append(Conv(inputs, one, 1))
        branches.append(nn.Sequential(Conv(inputs, three[0], 1), Conv(three[0], three[1], 3, stride)))
        branches.append(
            nn.Sequential(Conv(inputs, double[0], 1), Conv(double[0], double[1], 3), Conv(double[1], double[1], 3, stride))
        )
        pooling = nn.AvgPool2d(3, stride, 1) if average else nn.MaxPool2d(3, stride, 1, ceil_mode=False)
        branches.append(nn.Sequential(pooling, Conv(inputs, pool, 1)) if pool else pooling)
        self.branches = nn.ModuleList(branches)
        self.outputs = one + three[1] + double[1] + (pool or inputs)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], dim=1)


# 1x1, 3x3, double 3x3, projection, average pooling, stride: the table of the paper.
BLOCKS = [
    (64, (64, 64), (64, 96), 32, True, 1),
    (64, (64, 96), (64, 96), 64, True, 1),
    (0, (128, 160), (64, 96), 0, False, 2),
    (224, (64, 96), (96, 128), 128, True, 1),
    (192, (96, 128), (96, 128), 128, True, 1),
    (160, (128, 160), (128, 160), 96, True, 1),
    (96, (128, 192), (160, 192), 96, True, 1),
    (0, (128, 192), (192, 256), 0, False, 2),
    (352, (192, 320), (160, 224), 128, True, 1),
    (352, (192, 320), (192, 224), 128, False, 1),
]


class InceptionV2(nn.Module):
    def __init__(self, divisor, num_classes):
        super().__init__()
        width = 64 // divisor
        layers = [
            Conv(3, width, 7, 2),
            nn.MaxPool2d(3, 2, 1),
            Conv(width, width, 1),
            Conv(width, 3 * width, 3),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = 3 * width
        for one, three, double, pool, average, stride in BLOCKS:
            three, double = [n // divisor for n in three], [n // divisor for n in double]
            block = Inception(channels, one // divisor, three, double, pool // divisor, average, stride)
            channels = block.outputs
            layers.append(block)
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class FakeImages(Dataset):
    def __init__(self, length, size, classes):
        self.images = torch.rand(length, 3, size, size)
        self.labels = torch.arange(length) % classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"image": self.images[i], "label": self.labels[i]}


def main(args):
    torch.manual_seed(args.seed)
    torch.cuda.manual_seed_all(args.seed)
    loader = DataLoader(FakeImages(3 * args.batch, args.size, 10), args.batch, pin_memory=torch.cuda.is_available())
    net = nn.DataParallel(InceptionV2(args.divisor, 10)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.00005, momentum=0.9, weight_decay=2e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.94)
    for i, sample in enumerate(loader):
        sample = {key: value.cuda(non_blocking=True) for key, value in sample.items()}
        loss = nn.functional.cross_entropy(net(sample["image"]), sample["label"])
        net.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"step {i} loss {loss.data.item():.6f}")
    torch.save({"net": net.module.state_dict(), "optimizer": optimizer.state_dict()}, "inception_v2.pt")
    checkpoint = torch.load("inception_v2.pt", map_location="cuda:0")
    net.module.load_state_dict(checkpoint["net"])
    optimizer.load_state_dict(checkpoint["optimizer"])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--divisor", type=int, default=8)
    p.add_argument("--seed", type=int, default=17)
    main(p.parse_args())
