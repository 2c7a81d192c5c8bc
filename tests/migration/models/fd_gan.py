"""FD-GAN: a generator draws a person in a target pose. A shared encoder feeds two branches, and three
discriminators (verification, identity, pose) make its features keep the identity and drop the pose."""

import argparse
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import init


def init_weights(net, gain=0.02):
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            init.normal_(module.weight, 0.0, gain)
            if module.bias is not None:
                init.constant_(module.bias, 0.0)
        elif isinstance(module, (nn.BatchNorm2d, nn.BatchNorm1d)):
            init.normal_(module.weight, 1.0, gain)
            init.constant_(module.bias, 0.0)
    return net


def down(inputs, outputs):
    return nn.Sequential(nn.LeakyReLU(0.2), nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs))


class Encoder(nn.Module):
    """Features of an identity."""

    def __init__(self, width, features):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), down(width, 2 * width), down(2 * width, 4 * width), nn.ReLU())
        self.fc = nn.Linear(4 * width, features)

    def forward(self, x):
        return self.fc(F.adaptive_avg_pool2d(self.net(x), 1).flatten(1))


class PoseGenerator(nn.Module):
    """U-Net over the pose map; the identity's features and noise join at the bottom."""

    def __init__(self, width, pose, features, noise, dropout):
        super().__init__()
        self.pose1 = nn.Conv2d(pose, width, 4, 2, 1)
        self.pose2 = down(width, 2 * width)
        self.pose3 = down(2 * width, 4 * width)
        self.bottom = nn.Sequential(
            nn.ConvTranspose2d(features + noise, 4 * width, (4, 2), bias=False), nn.BatchNorm2d(4 * width), nn.Dropout(dropout)
        )
        self.up3 = self._up(8 * width, 2 * width)
        self.up2 = self._up(4 * width, width)
        self.up1 = nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(2 * width, 3, 4, 2, 1), nn.Tanh())

    @staticmethod
    def _up(inputs, outputs):
        return nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, pose, features, noise):
        one = self.pose1(pose)
        two = self.pose2(one)
        three = self.pose3(two)
        bottom = self.bottom(torch.cat((features, noise), 1)[:, :, None, None])
        x = self.up3(torch.cat((bottom, three), 1))
        x = self.up2(torch.cat((x, two), 1))
        return self.up1(torch.cat((x, one), 1))


class PatchDiscriminator(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(inputs, width, 4, 2, 1),
            down(width, 2 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 1, 3, 1, 1),
            nn.Sigmoid(),
        )

    def forward(self, *inputs):
        return self.net(torch.cat(inputs, 1))


class GANLoss(nn.Module):
    def __init__(self, smooth=False):
        super().__init__()
        self.smooth = smooth
        self.loss = nn.BCELoss()

    def forward(self, prediction, real):
        level = (0.9 if self.smooth else 1.0) if real else 0.0
        return self.loss(prediction, torch.full_like(prediction, level))


class FDGAN:
    def __init__(self, opt):
        self.opt = opt
        self.net_E = init_weights(Encoder(opt.width, opt.features)).cuda()
        self.net_G = init_weights(PoseGenerator(opt.width, opt.pose, opt.features, opt.noise, opt.dropout)).cuda()
        self.net_Di = init_weights(PatchDiscriminator(6, opt.width)).cuda()
        self.net_Dp = init_weights(PatchDiscriminator(3 + opt.pose, opt.width)).cuda()
        self.verify = init_weights(nn.Linear(opt.features, 2)).cuda()
        self.criterion = GANLoss(smooth=True).cuda()
        generator = itertools.chain(self.net_E.parameters(), self.net_G.parameters(), self.verify.parameters())
        self.optimizer_G = torch.optim.Adam(generator, lr=4e-3, betas=(0.5, 0.999))
        discriminators = itertools.chain(self.net_Di.parameters(), self.net_Dp.parameters())
        self.optimizer_D = torch.optim.SGD(discriminators, lr=0.01, momentum=0.9, weight_decay=1e-4)

    def set_input(self, batch):
        self.source, self.target, self.pose, self.noise, self.same = (item.cuda() for item in batch)

    def forward(self):
        features = self.net_E(torch.cat((self.source, self.target)))
        self.verified = self.verify((features.chunk(2)[0] - features.chunk(2)[1]).pow(2))
        self.fake = self.net_G(torch.cat((self.pose, self.pose)), features, torch.cat((self.noise, self.noise)))

    def backward_D(self):
        fake = self.fake.detach().chunk(2)[0]
        loss_i = self.criterion(self.net_Di(self.source, self.target), True) + self.criterion(
            self.net_Di(self.source, fake), False
        )
        loss_p = self.criterion(self.net_Dp(self.target, self.pose), True) + self.criterion(self.net_Dp(fake, self.pose), False)
        loss = 0.5 * (loss_i + loss_p)
        loss.backward()
        return loss.item()

    def backward_G(self):
        one, two = self.fake.chunk(2)
        loss_v = F.cross_entropy(self.verified, self.same)
        loss_r = F.l1_loss(one, self.target) + F.l1_loss(two[self.same == 1], self.target[self.same == 1])
        loss_sp = F.l1_loss(one[self.same == 1], two[self.same == 1])
        adversarial = self.criterion(self.net_Di(self.source, one), True) + self.criterion(self.net_Dp(one, self.pose), True)
        loss = loss_v + 100 * loss_r + 10 * loss_sp + adversarial
        loss.backward()
        return loss.item()

    def optimize_parameters(self):
        self.forward()
        self.optimizer_D.zero_grad()
        loss_d = self.backward_D()
        self.optimizer_D.step()
        self.optimizer_G.zero_grad()
        loss_g = self.backward_G()
        self.optimizer_G.step()
        return loss_d + loss_g


def batches(opt, count):
    for _ in range(count):
        image = (opt.batch_size, 3, 32, 16)
        same = torch.arange(opt.batch_size) % 2
        yield (
            torch.rand(image) * 2 - 1,
            torch.rand(image) * 2 - 1,
            torch.rand(opt.batch_size, opt.pose, 32, 16),
            torch.randn(opt.batch_size, opt.noise),
            same,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--noise", type=int, default=16)
    parser.add_argument("--pose", type=int, default=6, help="maps of key points")
    parser.add_argument("--dropout", type=float, default=0.0)
    opt = parser.parse_args()
    torch.manual_seed(99)
    model = FDGAN(opt)
    for step, batch in enumerate(batches(opt, 3)):
        model.set_input(batch)
        print(f"step {step} loss {model.optimize_parameters():.6f}")
