"""The networks of the trainer. Names of parameters and buffers are torchvision's, so that its checkpoints can be loaded.

net = create("resnet50")
"""

import torch
from torch import nn

from examples.shufflenet.joins import InterleaveShuffle
from examples.shufflenet.network import shufflenet_v2_x0_5, shufflenet_v2_x1_0

CLASSES = 1000


class _BasicBlock(nn.Module):
    """Two convolutions of 3x3 and a shortcut: ResNet-18 and -34."""

    expansion = 1

    def __init__(self, channels_in, width, stride, downsample):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + shortcut)


class _Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, and a shortcut: ResNet-50 and deeper. The 3x3 convolution has the stride."""

    expansion = 4

    def __init__(self, channels_in, width, stride, downsample):
        super().__init__()
        channels = width * self.expansion
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


class ResNet(nn.Module):
    def __init__(self, block, repeats, num_classes=CLASSES):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for number, count in enumerate(repeats):
            width, stride = 64 << number, 1 if number == 0 else 2
            setattr(self, f"layer{number + 1}", self._layer(block, channels, width, count, stride))
            channels = width * block.expansion
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    @staticmethod
    def _layer(block, channels_in, width, count, stride):
        channels = width * block.expansion
        downsample = None
        if stride != 1 or channels_in != channels:
            downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))
        rest = [block(channels, width, 1, None) for _ in range(count - 1)]
        return nn.Sequential(block(channels_in, width, stride, downsample), *rest)

    def forward(self, images):
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class _Sequence(nn.Module):
    """AlexNet and VGG: convolutions, then linear layers with dropout."""

    def __init__(self, features, pooled, classifier):
        super().__init__()
        self.features = nn.Sequential(*features)
        self.avgpool = nn.AdaptiveAvgPool2d(pooled)
        self.classifier = nn.Sequential(*classifier)

    def forward(self, images):
        return self.classifier(self.avgpool(self.features(images)).flatten(1))


def alexnet(num_classes=CLASSES):
    def relu():
        return nn.ReLU(inplace=True)

    features = [
        nn.Conv2d(3, 64, 11, 4, 2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2), relu(), nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1), relu(),
        nn.Conv2d(384, 256, 3, padding=1), relu(),
        nn.Conv2d(256, 256, 3, padding=1), relu(), nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    classifier = [
        nn.Dropout(), nn.Linear(256 * 6 * 6, 4096), relu(),
        nn.Dropout(), nn.Linear(4096, 4096), relu(),
        nn.Linear(4096, num_classes),
    ]  # fmt: skip
    return _Sequence(features, 6, classifier)


_VGG_REPEATS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def vgg(depth, norm=False, num_classes=CLASSES):
    features, channels = [], 3
    for width, count in zip((64, 128, 256, 512, 512), _VGG_REPEATS[depth], strict=True):
        for _ in range(count):
            features += [nn.Conv2d(channels, width, 3, padding=1), *([nn.BatchNorm2d(width)] if norm else [])]
            features.append(nn.ReLU(inplace=True))
            channels = width
        features.append(nn.MaxPool2d(2, 2))
    for module in features:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            nn.init.zeros_(module.bias)
    classifier = [nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    classifier += [nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, num_classes)]
    return _Sequence(features, 7, classifier)


NETWORKS = {
    "alexnet": alexnet,
    "resnet18": lambda **options: ResNet(_BasicBlock, (2, 2, 2, 2), **options),
    "resnet34": lambda **options: ResNet(_BasicBlock, (3, 4, 6, 3), **options),
    "resnet50": lambda **options: ResNet(_Bottleneck, (3, 4, 6, 3), **options),
    "resnet101": lambda **options: ResNet(_Bottleneck, (3, 4, 23, 3), **options),
    "resnet152": lambda **options: ResNet(_Bottleneck, (3, 8, 36, 3), **options),
    "shufflenet_v2_x0_5": shufflenet_v2_x0_5,
    "shufflenet_v2_x1_0": shufflenet_v2_x1_0,
    "shufflenet_v2_x1_0_tuned": lambda **options: shufflenet_v2_x1_0(join=InterleaveShuffle, **options),
    **{f"vgg{depth}": lambda depth=depth, **options: vgg(depth, **options) for depth in _VGG_REPEATS},
    **{f"vgg{depth}_bn": lambda depth=depth, **options: vgg(depth, norm=True, **options) for depth in _VGG_REPEATS},
}

# Files of https://download.pytorch.org/models with weights that were trained on ImageNet.
WEIGHTS = {
    "alexnet": "alexnet-owt-7be5be79.pth",
    "resnet18": "resnet18-f37072fd.pth",
    "resnet34": "resnet34-b627a593.pth",
    "resnet50": "resnet50-0676ba61.pth",
    "resnet101": "resnet101-63fe2227.pth",
    "resnet152": "resnet152-394f9c45.pth",
    "shufflenet_v2_x0_5": "shufflenetv2_x0.5-f707e7126e.pth",
    "shufflenet_v2_x1_0": "shufflenetv2_x1-5666bf0f80.pth",
    "shufflenet_v2_x1_0_tuned": "shufflenetv2_x1-5666bf0f80.pth",
    "vgg11": "vgg11-8a719046.pth",
    "vgg13": "vgg13-19584684.pth",
    "vgg16": "vgg16-397923af.pth",
    "vgg19": "vgg19-dcbb9e9d.pth",
    "vgg11_bn": "vgg11_bn-6002323d.pth",
    "vgg13_bn": "vgg13_bn-abd245e5.pth",
    "vgg16_bn": "vgg16_bn-6c64b313.pth",
    "vgg19_bn": "vgg19_bn-c79401a0.pth",
}


def create(arch, **options):
    """A network with random weights."""
    return NETWORKS[arch](**options)


def load_pretrained(net, arch):
    """Loads weights of the network from the cache of torch.hub, or downloads them."""
    address = f"https://download.pytorch.org/models/{WEIGHTS[arch]}"
    net.load_state_dict(torch.hub.load_state_dict_from_url(address, map_location="cpu", weights_only=True))
