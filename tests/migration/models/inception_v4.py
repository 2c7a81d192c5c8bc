"""Inception-v4: stem with mixed branches, Inception-A/B/C blocks and both reductions, at a fraction of the paper's width."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.data
from torch.cuda.amp import GradScaler, autocast

SCALE = 8  # divides the paper's widths


class BasicConv2d(nn.Module):
    def __init__(self, inputs, outputs, kernel_size, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel_size, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001, momentum=0.1)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)), inplace=True)


def conv(inputs, outputs, kernel=1, stride=1, padding=0):
    return BasicConv2d(inputs // SCALE if inputs > 3 else 3, outputs // SCALE, kernel, stride, padding)


class Branches(nn.Module):
    """The branches' outputs, joined by channel."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def stem():
    return nn.Sequential(
        conv(3, 32, 3, 2),
        conv(32, 32, 3),
        conv(32, 64, 3, padding=1),
        Branches(nn.MaxPool2d(3, stride=2), conv(64, 96, 3, 2)),
        Branches(
            nn.Sequential(conv(160, 64), conv(64, 96, 3)),
            nn.Sequential(
                conv(160, 64), conv(64, 64, (1, 7), padding=(0, 3)), conv(64, 64, (7, 1), padding=(3, 0)), conv(64, 96, 3)
            ),
        ),
        Branches(conv(192, 192, 3, 2), nn.MaxPool2d(3, stride=2)),
    )


def pooled(inputs, outputs):
    return nn.Sequential(nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False), conv(inputs, outputs))


def inception_a():
    return Branches(
        conv(384, 96),
        nn.Sequential(conv(384, 64), conv(64, 96, 3, padding=1)),
        nn.Sequential(conv(384, 64), conv(64, 96, 3, padding=1), conv(96, 96, 3, padding=1)),
        pooled(384, 96),
    )


def reduction_a():
    return Branches(
        conv(384, 384, 3, 2),
        nn.Sequential(conv(384, 192), conv(192, 224, 3, padding=1), conv(224, 256, 3, 2)),
        nn.MaxPool2d(3, stride=2),
    )


def inception_b():
    return Branches(
        conv(1024, 384),
        nn.Sequential(conv(1024, 192), conv(192, 224, (1, 7), padding=(0, 3)), conv(224, 256, (7, 1), padding=(3, 0))),
        nn.Sequential(
            conv(1024, 192),
            conv(192, 192, (7, 1), padding=(3, 0)),
            conv(192, 224, (1, 7), padding=(0, 3)),
            conv(224, 224, (7, 1), padding=(3, 0)),
            conv(224, 256, (1, 7), padding=(0, 3)),
        ),
        pooled(1024, 128),
    )


def reduction_b():
    return Branches(
        nn.Sequential(conv(1024, 192), conv(192, 192, 3, 2)),
        nn.Sequential(
            conv(1024, 256), conv(256, 256, (1, 7), padding=(0, 3)), conv(256, 320, (7, 1), padding=(3, 0)), conv(320, 320, 3, 2)
        ),
        nn.MaxPool2d(3, stride=2),
    )


def fork(inputs):
    return Branches(conv(inputs, 256, (1, 3), padding=(0, 1)), conv(inputs, 256, (3, 1), padding=(1, 0)))


def inception_c():
    return Branches(
        conv(1536, 256),
        nn.Sequential(conv(1536, 384), fork(384)),
        nn.Sequential(conv(1536, 384), conv(384, 448, (3, 1), padding=(1, 0)), conv(448, 512, (1, 3), padding=(0, 1)), fork(512)),
        pooled(1536, 256),
    )


class InceptionV4(nn.Module):
    def __init__(self, num_classes, blocks=(4, 7, 3)):
        super().__init__()
        a, b, c = blocks
        self.features = nn.Sequential(
            stem(),
            *(inception_a() for _ in range(a)),
            reduction_a(),
            *(inception_b() for _ in range(b)),
            reduction_b(),
            *(inception_c() for _ in range(c)),
        )
        self.last_linear = nn.Linear(1536 // SCALE, num_classes)

    def forward(self, x):
        return self.last_linear(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=107)
    parser.add_argument("--blocks", type=int, nargs=3, default=(1, 1, 1), help="4 7 3 in the paper")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--amp", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(4)
    torch.backends.cudnn.benchmark = True
    model = InceptionV4(20, args.blocks).cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), args.lr, alpha=0.9, eps=1.0, weight_decay=1e-5, momentum=0.9)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1).cuda()
    scaler = GradScaler(enabled=args.amp)
    dataset = torch.utils.data.TensorDataset(
        torch.randn(3 * args.batch_size, 3, args.image_size, args.image_size), torch.randint(0, 20, (3 * args.batch_size,))
    )
    loader = torch.utils.data.DataLoader(dataset, batch_size=args.batch_size, shuffle=True, pin_memory=True)
    for i, (image, label) in enumerate(loader):
        image, label = image.cuda(non_blocking=True), label.cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        with autocast(enabled=args.amp):
            loss = criterion(model(image), label)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        scaler.step(optimizer)
        scaler.update()
        print("step", i, "loss", f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
