"""DeepLabv3+ with an aligned Xception backbone: separable convolutions, ASPP, and a decoder with low-level features."""

import argparse
import logging
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
logger = logging.getLogger("deeplab")


class SeparableConv(nn.Module):
    def __init__(self, inputs, outputs, stride=1, dilation=1):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, dilation, dilation, groups=inputs, bias=False)
        self.bn_depthwise = nn.BatchNorm2d(inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn_pointwise = nn.BatchNorm2d(outputs)

    def forward(self, x):
        x = F.relu(self.bn_depthwise(self.depthwise(x)))
        return F.relu(self.bn_pointwise(self.pointwise(x)))


class XceptionBlock(nn.Module):
    def __init__(self, inputs, outputs, stride=1, dilation=1):
        super().__init__()
        self.body = nn.Sequential(
            SeparableConv(inputs, outputs, 1, dilation),
            SeparableConv(outputs, outputs, 1, dilation),
            SeparableConv(outputs, outputs, stride, dilation),
        )
        self.skip = None
        if inputs != outputs or stride != 1:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return self.body(x) + (x if self.skip is None else self.skip(x))


class Xception(nn.Module):
    def __init__(self, width, middle):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, 2 * width, 3, 1, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(inplace=True),
        )
        self.entry1 = XceptionBlock(2 * width, 4 * width, 2)
        self.entry2 = nn.Sequential(XceptionBlock(4 * width, 8 * width, 2), XceptionBlock(8 * width, 8 * width, 2))
        self.middle = nn.Sequential(*(XceptionBlock(8 * width, 8 * width) for _ in range(middle)))
        self.exit = nn.Sequential(
            XceptionBlock(8 * width, 12 * width, dilation=2),
            SeparableConv(12 * width, 16 * width, dilation=2),
        )

    def forward(self, x):
        low = self.entry1(self.stem(x))
        return low, self.exit(self.middle(self.entry2(low)))


def conv_bn_relu(inputs, outputs, kernel, dilation=1):
    padding = dilation * (kernel // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=padding, dilation=dilation, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class ASPP(nn.Module):
    def __init__(self, inputs, outputs, rates):
        super().__init__()
        self.branches = nn.ModuleList([conv_bn_relu(inputs, outputs, 1)])
        self.branches.extend(conv_bn_relu(inputs, outputs, 3, rate) for rate in rates)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv_bn_relu(inputs, outputs, 1))
        self.project = conv_bn_relu(outputs * (len(rates) + 2), outputs, 1)

    def forward(self, x):
        pooled = F.interpolate(self.pool(x), size=x.shape[2:], mode="bilinear", align_corners=True)
        return self.project(torch.cat([*(branch(x) for branch in self.branches), pooled], dim=1))


class DeepLab(nn.Module):
    def __init__(self, width, middle, classes):
        super().__init__()
        self.backbone = Xception(width, middle)
        self.aspp = ASPP(16 * width, 8 * width, rates=(2, 4, 6))
        self.low = conv_bn_relu(4 * width, 2 * width, 1)
        self.decoder = nn.Sequential(conv_bn_relu(10 * width, 8 * width, 3), nn.Conv2d(8 * width, classes, 1))

    def forward(self, image):
        low, x = self.backbone(image)
        x = F.interpolate(self.aspp(x), size=low.shape[2:], mode="bilinear", align_corners=True)
        x = self.decoder(torch.cat((x, self.low(low)), dim=1))
        return F.interpolate(x, size=image.shape[2:], mode="bilinear", align_corners=True)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.model = DeepLab(args.width, args.middle, args.classes)
        groups = [
            {"params": self.model.backbone.parameters(), "lr": args.lr},
            {"params": [p for n, p in self.model.named_parameters() if not n.startswith("backbone.")], "lr": args.lr * 10},
        ]
        self.optimizer = torch.optim.SGD(groups, momentum=0.9, weight_decay=5e-4)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: (1 - step / 100) ** 0.9)
        self.criterion = nn.CrossEntropyLoss(ignore_index=255)
        if args.cuda:
            self.model = torch.nn.DataParallel(self.model, device_ids=args.gpu_ids).cuda()
            self.criterion = self.criterion.cuda()

    def train(self, loader):
        self.model.train()
        for step, sample in enumerate(loader):
            image, target = sample
            if self.args.cuda:
                image, target = image.cuda(), target.cuda()
            self.optimizer.zero_grad()
            output = self.model(image)
            loss = self.criterion(output, target.long())
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            logger.info("step %d loss %.6f", step, loss.item())


def main():
    parser = argparse.ArgumentParser(description="DeepLabv3+ training")
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--middle", type=int, default=2, help="blocks of the middle flow, 16 in the paper")
    parser.add_argument("--classes", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.0007)
    parser.add_argument("--no-cuda", action="store_true", default=False)
    parser.add_argument("--gpu-ids", type=str, default="0")
    args = parser.parse_args()
    args.cuda = not args.no_cuda and torch.cuda.is_available()
    args.gpu_ids = [int(s) for s in args.gpu_ids.split(",")]
    torch.manual_seed(1)
    image = torch.randn(9, 3, 64, 64)
    target = torch.randint(0, args.classes, (9, 64, 64)).float()
    target[torch.rand_like(target) < 0.05] = 255
    loader = DataLoader(TensorDataset(image, target), batch_size=3, shuffle=True, num_workers=0, pin_memory=True)
    Trainer(args).train(loader)


if __name__ == "__main__":
    main()
