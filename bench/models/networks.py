"""The networks of the benchmark: their usual definitions, small enough for steps of tens of milliseconds on two cores."""

import torch
from torch import nn
from torch.nn import functional


class _Residual(nn.Module):
    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
        )
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return functional.relu(self.second(self.first(x)) + self.shortcut(x))


def resnet18():
    """ResNet-18 with the stem of ImageNet."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels_in = 64
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Residual(channels_in, channels, stride), _Residual(channels, channels, 1)]
        channels_in = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class _Bottleneck(nn.Module):
    def __init__(self, channels_in, width, stride):
        super().__init__()
        channels = 4 * width
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return functional.relu(self.layers(x) + self.shortcut(x))


def resnet50():
    """ResNet-50 with the stem of ImageNet."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels_in = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(_Bottleneck(channels_in, width, stride if index == 0 else 1))
            channels_in = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 10))


def _conv(channels_in, channels, kernel, stride=1, groups=1):
    return [
        nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(inplace=True),
    ]


class _InvertedResidual(nn.Module):
    def __init__(self, channels_in, channels, stride, widening):
        super().__init__()
        wide = channels_in * widening
        layers = _conv(channels_in, wide, 1) if widening != 1 else []
        layers += [*_conv(wide, wide, 3, stride, wide), nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and channels_in == channels

    def forward(self, x):
        return x + self.layers(x) if self.adds else self.layers(x)


def mobilenet_v2():
    layers, channels_in = _conv(3, 32, 3, 2), 32
    for widening, channels, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(count):
            layers.append(_InvertedResidual(channels_in, channels, stride if index == 0 else 1, widening))
            channels_in = channels
    return nn.Sequential(
        *layers, *_conv(channels_in, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 10)
    )


class UNet(nn.Module):
    """Three levels; the way up is a transposed convolution."""

    def __init__(self, width=16, classes=2):
        super().__init__()
        widths = [width, width * 2, width * 4]
        self.down = nn.ModuleList(self._double(a, b) for a, b in zip([3, *widths], widths, strict=False))
        self.bottom = self._double(widths[-1], width * 8)
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.up = nn.ModuleList(self._double(2 * w, w) for w in reversed(widths))
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _double(channels_in, channels):
        return nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
        )  # fmt: skip

    def forward(self, x):
        kept = []
        for level in self.down:
            kept.append(level(x))
            x = functional.max_pool2d(kept[-1], 2)
        x = self.bottom(x)
        for widen, level in zip(self.widen, self.up, strict=True):
            x = level(torch.cat([kept.pop(), widen(x)], 1))
        return self.head(x)


class LanguageLSTM(nn.Module):
    def __init__(self, words=1000, width=128):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class _Block(nn.Module):
    """A layer of a transformer with the norms before (GPT, ViT) or after (BERT) its two halves."""

    def __init__(self, width, heads, causal=False, norms_first=False):
        super().__init__()
        self.heads, self.causal, self.norms_first = heads, causal, norms_first
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(0.1)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        x = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.dropout(self.project(x.transpose(1, 2).reshape(batch, length, width)))

    def forward(self, x):
        if self.norms_first:
            x = x + self.attend(self.norms[0](x))
            return x + self.dropout(self.mlp(self.norms[1](x)))
        x = self.norms[0](x + self.attend(x))
        return self.norms[1](x + self.dropout(self.mlp(x)))


class Transformer(nn.Module):
    def __init__(self, causal, words=1000, width=128, heads=4, layers=4, length=64):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width, heads, causal, causal) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.head(self.norm(self.blocks(self.words(tokens) + self.positions(positions))))


class VisionTransformer(nn.Module):
    """ViT-tiny (width 192, 3 heads, 12 layers) on images of 64x64 in patches of 8x8. The mean of all patches is classified."""

    def __init__(self, width=192, heads=3, layers=12, patch=8, size=64):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2, width) * 0.02)
        self.blocks = nn.Sequential(*(_Block(width, heads, norms_first=True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))
