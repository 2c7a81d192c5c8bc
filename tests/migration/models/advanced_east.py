"""AdvancedEAST: detection of long text. VGG16 features, merged from coarse to fine; every pixel predicts whether it lies
inside a text box, whether it lies at the box's head or tail, and the offsets of two corners."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable

VGG16 = [1, 1, "M", 2, 2, "M", 4, 4, 4, "M", 8, 8, 8, "M", 8, 8, 8, "M"]


def conv_bn(inputs, outputs, kernel):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2),
        nn.BatchNorm2d(outputs, momentum=0.003, eps=1e-3),
        nn.ReLU(inplace=True),
    )


class AdvancedEast(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.stages = nn.ModuleList()
        inputs, layers = 3, []
        for item in VGG16:
            if item == "M":
                layers.append(nn.MaxPool2d(2, 2))
                self.stages.append(nn.Sequential(*layers))
                layers = []
            else:
                layers += [nn.Conv2d(inputs, item * width, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = item * width
        self.bn = nn.BatchNorm2d(8 * width)
        self.merge5 = nn.Sequential(conv_bn(16 * width, 2 * width, 1), conv_bn(2 * width, 2 * width, 3))
        self.merge4 = nn.Sequential(conv_bn(6 * width, width, 1), conv_bn(width, width, 3))
        self.merge3 = nn.Sequential(conv_bn(3 * width, width, 1), conv_bn(width, width, 3))
        self.last = conv_bn(width, width, 3)
        self.inside_score = nn.Conv2d(width, 1, 1)
        self.side_vertex_code = nn.Conv2d(width, 2, 1)
        self.side_vertex_coord = nn.Conv2d(width, 4, 1)

    def forward(self, x):
        features = []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        x = self.bn(features[4])
        for feature, merge in ((features[3], self.merge5), (features[2], self.merge4), (features[1], self.merge3)):
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = merge(torch.cat((x, feature), 1))
        x = self.last(x)
        return torch.cat((self.inside_score(x), self.side_vertex_code(x), self.side_vertex_coord(x)), 1)


def balanced_bce(logits, target):
    """Cross-entropy whose positive pixels weigh as much as the negative ones."""
    beta = 1 - target.mean()
    p = torch.sigmoid(logits).clamp(1e-4, 1 - 1e-4)
    return -(beta * target * torch.log(p) + (1 - beta) * (1 - target) * torch.log(1 - p)).mean()


def quad_loss(target, prediction, epsilon=1e-4):
    inside = target[:, 0]
    loss = 4 * balanced_bce(prediction[:, 0], inside)
    code = target[:, 1:3]
    weight = inside.unsqueeze(1)
    bce = F.binary_cross_entropy_with_logits(prediction[:, 1:3], code, reduction="none")
    loss = loss + (bce * weight).sum() / (weight.sum() + epsilon)
    vertex = (code[:, 0] * inside).unsqueeze(1)
    difference = torch.abs(prediction[:, 3:] - target[:, 3:]) * vertex
    pixelwise = torch.where(difference < 1, 0.5 * difference * difference, difference - 0.5)
    return loss + pixelwise.sum() / (8 * vertex.sum() + epsilon)


def synthetic_batch(args):
    image = torch.rand(args.batch_size, 3, args.size, args.size)
    target = torch.zeros(args.batch_size, 7, args.size // 4, args.size // 4)
    for index in range(args.batch_size):
        top, left = torch.randint(0, args.size // 8, (2,)).tolist()
        box = target[index, :, top : top + 6, left : left + 8]
        box[0] = 1
        box[1, :, :2] = 1
        box[1, :, -2:] = 1
        box[2, :, -2:] = 1
        box[3:] = torch.randn(4, *box.shape[1:])
    return image, target


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--no-cuda", action="store_true")
    args = parser.parse_args()
    use_cuda = not args.no_cuda and torch.cuda.is_available()

    torch.manual_seed(28)
    model = AdvancedEast(args.width)
    if use_cuda:
        torch.cuda.manual_seed(28)
        model = model.cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, weight_decay=5e-4)
    for step in range(3):
        image, target = synthetic_batch(args)
        if use_cuda:
            image, target = image.cuda(), target.cuda()
        image, target = Variable(image), Variable(target)
        loss = quad_loss(target, model(image))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {float(loss):.6f}")


if __name__ == "__main__":
    main()
