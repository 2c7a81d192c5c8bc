"""FOTS: detection and recognition of text with shared features. RoIRotate cuts rotated boxes out of the feature map; a
recurrent head with CTC reads them."""

import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class SharedConv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.ModuleList(
            Bottleneck(width if i == 0 else width * 2 ** (i + 1), width * 2**i, 1 if i == 0 else 2) for i in range(4)
        )
        self.merges = nn.ModuleList()
        channels = 32 * width
        for i in (2, 1, 0):
            outputs = width * 2**i
            self.merges.append(
                nn.Sequential(nn.Conv2d(channels + 4 * width * 2**i, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU())
            )
            channels = outputs

    def forward(self, x):
        x = self.stem(x)
        maps = []
        for layer in self.layers:
            x = layer(x)
            maps.append(x)
        for merge, skip in zip(self.merges, maps[2::-1], strict=True):
            x = merge(torch.cat((F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=True), skip), dim=1))
        return x


class Detector(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.score = nn.Conv2d(width, 1, 1)
        self.geo = nn.Conv2d(width, 4, 1)
        self.angle = nn.Conv2d(width, 1, 1)
        self.size = size

    def forward(self, x):
        geo = torch.sigmoid(self.geo(x)) * self.size
        angle = (torch.sigmoid(self.angle(x)) - 0.5) * math.pi / 2
        return torch.sigmoid(self.score(x)), torch.cat((geo, angle), dim=1)


class ROIRotate(nn.Module):
    """Samples each box (image, centre x and y, width, height, angle; relative units) as a strip of fixed height."""

    def __init__(self, height, width):
        super().__init__()
        self.height, self.width = height, width

    def forward(self, features, boxes):
        index = boxes[:, 0].long()
        cx, cy, w, h, angle = boxes[:, 1:].unbind(1)
        cos, sin = torch.cos(angle), torch.sin(angle)
        theta = torch.stack((w * cos, -h * sin, cx, w * sin, h * cos, cy), dim=1).view(-1, 2, 3)
        size = (len(boxes), features.shape[1], self.height, self.width)
        grid = F.affine_grid(theta, size, align_corners=False)
        return F.grid_sample(features[index], grid, mode="bilinear", padding_mode="zeros", align_corners=False)


class Recognizer(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.MaxPool2d((2, 1), stride=(2, 1)),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(),
            nn.MaxPool2d((2, 1), stride=(2, 1)),
        )
        self.rnn = nn.LSTM(8 * width, 4 * width, bidirectional=True)
        self.fc = nn.Linear(8 * width, classes)

    def forward(self, x):
        x = self.cnn(x)
        x = x.permute(3, 0, 1, 2).flatten(2)
        self.rnn.flatten_parameters()
        return F.log_softmax(self.fc(self.rnn(x)[0]), dim=2)


class FOTS(nn.Module):
    def __init__(self, width, size, classes):
        super().__init__()
        self.shared = SharedConv(width)
        self.detector = Detector(width, size)
        self.rotate = ROIRotate(8, 16)
        self.recognizer = Recognizer(width, classes)

    def forward(self, image, boxes):
        features = self.shared(image)
        score, geo = self.detector(features)
        return score, geo, self.recognizer(self.rotate(features, boxes))


def detection_loss(score, geo, score_map, geo_map):
    classification = 1 - 2 * (score * score_map).sum() / (score.sum() + score_map.sum() + 1e-5)
    top, right, bottom, left, angle = geo.split(1, dim=1)
    t_top, t_right, t_bottom, t_left, t_angle = geo_map.split(1, dim=1)
    area = (top + bottom) * (right + left)
    t_area = (t_top + t_bottom) * (t_right + t_left)
    inter = (torch.min(right, t_right) + torch.min(left, t_left)) * (torch.min(top, t_top) + torch.min(bottom, t_bottom))
    overlap = -torch.log((inter + 1) / (area + t_area - inter + 1))
    return classification + (score_map * (overlap + 10 * (1 - torch.cos(angle - t_angle)))).mean()


def main(args):
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True
    with_gpu = torch.cuda.is_available()
    device = torch.device(f"cuda:{args.gpu}") if with_gpu else torch.device("cpu")

    model = FOTS(args.width, args.size, args.classes).to(device)
    ctc = nn.CTCLoss(zero_infinity=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    small = args.size // 4
    boxes = torch.rand(2 * args.batch_size, 6)
    boxes[:, 0] = torch.arange(2 * args.batch_size) // 2
    boxes[:, 1:3] -= 0.5
    boxes[:, 3:5] = 0.25 + boxes[:, 3:5] / 2
    for step in range(3):
        image = torch.randn(args.batch_size, 3, args.size, args.size).to(device)
        score_map = (torch.rand(args.batch_size, 1, small, small) > 0.7).float().to(device)
        geo_map = torch.rand(args.batch_size, 5, small, small).mul_(20).to(device)
        lengths = torch.randint(2, 6, (len(boxes),))
        labels = torch.randint(1, args.classes, (int(lengths.sum()),))
        score, geo, text = model(image, boxes.to(device))
        sizes = torch.full((text.shape[1],), text.shape[0], dtype=torch.long)
        loss = detection_loss(score, geo, score_map, geo_map) + ctc(text, labels.to(device), sizes, lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        value = loss.detach().cpu().numpy()
        print(f"step {step} loss {value:.6f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seed", type=int, default=10)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=12)
    parser.add_argument("--batch_size", type=int, default=2)
    main(parser.parse_args())
