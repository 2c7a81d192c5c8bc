"""MobileNet v1: depthwise separable convolutions, with the width multiplier of the paper."""

import argparse
import math

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.optim
import torch.utils.data


class DataPrefetcher:
    """Copies the next batch to the GPU on a stream of its own."""

    def __init__(self, loader):
        self.loader = iter(loader)
        self.stream = torch.cuda.Stream()
        self.preload()

    def preload(self):
        try:
            self.next_input, self.next_target = next(self.loader)
        except StopIteration:
            self.next_input = self.next_target = None
            return
        with torch.cuda.stream(self.stream):
            self.next_input = self.next_input.cuda(non_blocking=True).float().sub_(127.5).div_(127.5)
            self.next_target = self.next_target.cuda(non_blocking=True)

    def next(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        image, target = self.next_input, self.next_target
        if image is not None:
            image.record_stream(torch.cuda.current_stream())
            target.record_stream(torch.cuda.current_stream())
        self.preload()
        return image, target


def conv_bn(inputs, outputs, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def conv_dw(inputs, outputs, stride):
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
        nn.BatchNorm2d(inputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(inputs, outputs, 1, 1, 0, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class MobileNetV1(nn.Module):
    LAYERS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))

    def __init__(self, alpha, num_classes):
        super().__init__()
        channels = int(32 * alpha)
        layers = [conv_bn(3, channels, 2)]
        for outputs, stride in self.LAYERS:
            layers.append(conv_dw(channels, int(outputs * alpha), stride))
            channels = int(outputs * alpha)
        self.model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(channels, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, 0, math.sqrt(2.0 / (m.kernel_size[0] ** 2 * m.out_channels // m.groups)))

    def forward(self, x):
        x = self.model(x)
        return self.fc(x.view(-1, x.size(1)))


def to_python_float(t):
    return t.item() if hasattr(t, "item") else t[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--alpha", type=float, default=0.25, help="width multiplier")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--local_rank", type=int, default=0)
    args = parser.parse_args()

    cudnn.benchmark = True
    torch.manual_seed(0)
    torch.cuda.set_device(args.local_rank)
    model = MobileNetV1(args.alpha, 10).cuda()
    criterion = nn.CrossEntropyLoss().cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.0002, momentum=0.9, weight_decay=4e-5)

    images = torch.randint(0, 256, (3 * args.batch_size, 3, args.size, args.size), dtype=torch.uint8)
    targets = torch.randint(0, 10, (3 * args.batch_size,))
    dataset = torch.utils.data.TensorDataset(images, targets)
    prefetcher = DataPrefetcher(torch.utils.data.DataLoader(dataset, args.batch_size, pin_memory=True))
    model.train()
    image, target = prefetcher.next()
    step = 0
    while image is not None:
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        print(f"step {step} loss {to_python_float(loss.data):.6f}")
        step += 1
        image, target = prefetcher.next()


if __name__ == "__main__":
    main()
