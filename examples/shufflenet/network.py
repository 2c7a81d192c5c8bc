"""ShuffleNet V2. The way in which a block joins its two branches is exchangeable: joins.py has those of the tuning example.

    net = shufflenet_v2_x1_0()                               # the plain network
    net = shufflenet_v2_x1_0(join=FusedShuffle)              # the same function, tuned

The names of parameters and buffers are torchvision's, and the joins add none, so that all variants exchange checkpoints.
"""

from torch import nn

from .joins import PlainShuffle


def _conv(channels_in, channels, kernel, stride=1):
    return nn.Conv2d(channels_in, channels, kernel, stride, kernel // 2, bias=False)


def _depthwise(channels, stride):
    return nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)


def _norm_relu(channels):
    return nn.BatchNorm2d(channels), nn.ReLU(inplace=True)


class InvertedResidual(nn.Module):
    """Two branches and their join. With stride 1 the first branch is the identity of one half of the channels.

    The input is a tensor, or the pair of its halves if the join before it has made them. `split` asks the join for a pair.
    """

    def __init__(self, channels_in, channels, stride, join, split):
        super().__init__()
        if stride not in (1, 2, 3):
            raise ValueError(f"InvertedResidual: stride is {stride}, but it must be 1, 2 or 3")
        if channels % 4 or (stride == 1 and channels_in != channels):
            raise ValueError(
                f"InvertedResidual: {channels_in} to {channels} channels with stride {stride}; the number of output channels "
                "must be a multiple of 4, and equal to the number of input channels if the stride is 1"
            )
        half = channels // 2
        self.stride = stride
        self.branch1 = nn.Sequential()
        if stride > 1:
            self.branch1 = nn.Sequential(
                _depthwise(channels_in, stride), nn.BatchNorm2d(channels_in), _conv(channels_in, half, 1), *_norm_relu(half)
            )
        self.branch2 = nn.Sequential(
            _conv(half if stride == 1 else channels_in, half, 1), *_norm_relu(half),
            _depthwise(half, stride), nn.BatchNorm2d(half),
            _conv(half, half, 1), *_norm_relu(half),
        )  # fmt: skip
        self.channel_shuffle = join(channels, split)

    def forward(self, x):
        if self.stride > 1:
            return self.channel_shuffle(self.branch1(x), self.branch2(x))
        first, second = x if isinstance(x, tuple) else x.chunk(2, dim=1)
        return self.channel_shuffle(first, self.branch2(second))


class ShuffleNetV2(nn.Module):
    """`repeats` has the number of blocks of each stage, `channels` the width of the stem, of each stage and of the last layer."""

    def __init__(self, repeats=(4, 8, 4), channels=(24, 116, 232, 464, 1024), num_classes=1000, join=PlainShuffle):
        super().__init__()
        if len(channels) != len(repeats) + 2:
            raise ValueError(f"ShuffleNetV2: {len(repeats)} stages need {len(repeats) + 2} widths, but channels is {channels}")
        self.conv1 = nn.Sequential(_conv(3, channels[0], 3, stride=2), *_norm_relu(channels[0]))
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.stages = [f"stage{number}" for number in range(2, 2 + len(repeats))]
        for name, count, before, width in zip(self.stages, repeats, channels, channels[1:], strict=False):
            # The block after the last one of a stage needs the whole tensor, not its halves.
            blocks = [InvertedResidual(before, width, 2, join, split=count > 1)]
            blocks += [InvertedResidual(width, width, 1, join, split=number < count - 1) for number in range(1, count)]
            setattr(self, name, nn.Sequential(*blocks))
        self.conv5 = nn.Sequential(_conv(channels[-2], channels[-1], 1), *_norm_relu(channels[-1]))
        self.fc = nn.Linear(channels[-1], num_classes)

    def forward(self, images):
        x = self.maxpool(self.conv1(images))
        for name in self.stages:
            x = getattr(self, name)(x)
        return self.fc(self.conv5(x).mean([2, 3]))


def shufflenet_v2_x0_5(**options):
    return ShuffleNetV2(channels=(24, 48, 96, 192, 1024), **options)


def shufflenet_v2_x1_0(**options):
    return ShuffleNetV2(**options)
