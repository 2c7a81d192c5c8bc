"""VAE/GAN: an autoencoder whose reconstruction error is measured in the features of a discriminator."""

import argparse

import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.optim import RMSprop
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import DataLoader, TensorDataset


class EncoderBlock(nn.Module):
    def __init__(self, channel_in, channel_out):
        super().__init__()
        self.conv = nn.Conv2d(channel_in, channel_out, kernel_size=5, padding=2, stride=2, bias=False)
        self.bn = nn.BatchNorm2d(channel_out, momentum=0.9)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class DecoderBlock(nn.Module):
    def __init__(self, channel_in, channel_out):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channel_in, channel_out, 5, padding=2, stride=2, output_padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channel_out, momentum=0.9)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class Encoder(nn.Module):
    def __init__(self, width, z_size):
        super().__init__()
        self.conv = nn.Sequential(EncoderBlock(3, width), EncoderBlock(width, 2 * width), EncoderBlock(2 * width, 4 * width))
        self.fc = nn.Sequential(
            nn.Linear(64 * width, 8 * width, bias=False), nn.BatchNorm1d(8 * width, momentum=0.9), nn.ReLU(True)
        )
        self.l_mu = nn.Linear(8 * width, z_size)
        self.l_var = nn.Linear(8 * width, z_size)

    def forward(self, x):
        x = self.conv(x)
        x = self.fc(x.view(len(x), -1))
        return self.l_mu(x), self.l_var(x)


class Decoder(nn.Module):
    def __init__(self, width, z_size):
        super().__init__()
        self.width = width
        self.fc = nn.Sequential(
            nn.Linear(z_size, 64 * width, bias=False), nn.BatchNorm1d(64 * width, momentum=0.9), nn.ReLU(True)
        )
        self.conv = nn.Sequential(
            DecoderBlock(4 * width, 4 * width),
            DecoderBlock(4 * width, 2 * width),
            DecoderBlock(2 * width, width),
            nn.Conv2d(width, 3, kernel_size=5, padding=2),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.conv(self.fc(z).view(len(z), 4 * self.width, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(3, width, 5, padding=2), nn.ReLU(True)),
                EncoderBlock(width, 2 * width),
                EncoderBlock(2 * width, 4 * width),
                EncoderBlock(4 * width, 4 * width),
            ]
        )
        self.fc = nn.Sequential(
            nn.Linear(64 * width, 8 * width, bias=False),
            nn.BatchNorm1d(8 * width, momentum=0.9),
            nn.ReLU(True),
            nn.Linear(8 * width, 1),
        )

    def forward(self, original, reconstructed, sampled):
        x = torch.cat((original, reconstructed, sampled), 0)
        layer = None
        for i, block in enumerate(self.conv):
            x = block(x)
            if i == 2:
                layer = x.view(len(x), -1)
        return layer, torch.sigmoid(self.fc(x.view(len(x), -1)))


class VaeGan(nn.Module):
    def __init__(self, width, z_size):
        super().__init__()
        self.z_size = z_size
        self.encoder, self.decoder, self.discriminator = Encoder(width, z_size), Decoder(width, z_size), Discriminator(width)
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
                nn.init.uniform_(m.weight, -0.1, 0.1)
                if m.bias is not None:
                    nn.init.constant_(m.bias, 0.0)

    def forward(self, x):
        mus, log_variances = self.encoder(x)
        noise = Variable(torch.randn(len(x), self.z_size)).cuda()
        z = noise * torch.exp(log_variances * 0.5) + mus
        z_p = Variable(torch.randn(len(x), self.z_size), requires_grad=True).cuda()
        x_tilde, x_p = self.decoder(z), self.decoder(z_p)
        layer, classes = self.discriminator(x, x_tilde, x_p)
        return mus, log_variances, layer.chunk(3), classes.chunk(3)


def losses(mus, variances, layers, classes):
    kl = -0.5 * torch.sum(-variances.exp() - mus.pow(2) + variances + 1, 1)
    mse = torch.sum(0.5 * (layers[0] - layers[1]) ** 2, 1)
    original = -torch.log(classes[0] + 1e-3)
    predicted = -torch.log(1 - classes[1] + 1e-3)
    sampled = -torch.log(1 - classes[2] + 1e-3)
    return kl.mean(), mse.mean(), original.mean(), predicted.mean(), sampled.mean()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="VAE/GAN")
    parser.add_argument("--batch_size", default=6, type=int)
    parser.add_argument("--width", default=8, type=int)
    parser.add_argument("--z_size", default=16, type=int)
    parser.add_argument("--lr", default=3e-5, type=float)
    parser.add_argument("--lambda_mse", default=1e-3, type=float)
    args = parser.parse_args()

    torch.manual_seed(8)
    torch.cuda.manual_seed(8)
    net = VaeGan(args.width, args.z_size).cuda()
    optimizers = [
        RMSprop(part.parameters(), lr=args.lr, alpha=0.9, eps=1e-8) for part in (net.encoder, net.decoder, net.discriminator)
    ]
    schedulers = [ExponentialLR(optimizer, gamma=0.75) for optimizer in optimizers]
    loader = DataLoader(TensorDataset(torch.rand(3 * args.batch_size, 3, 32, 32) * 2 - 1), args.batch_size)
    net.train()
    for i, (x,) in enumerate(loader):
        x = Variable(x, requires_grad=False).float().cuda()
        kl, mse, original, predicted, sampled = losses(*net(x))
        loss_discriminator = original + predicted + sampled
        loss_encoder = kl / args.z_size + args.lambda_mse * mse
        loss_decoder = args.lambda_mse * mse - (1.0 - args.lambda_mse) * loss_discriminator
        net.zero_grad()
        parts = (net.encoder, net.decoder, net.discriminator)
        for part, loss in zip(parts, (loss_encoder, loss_decoder, loss_discriminator), strict=True):
            parameters = list(part.parameters())
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient.clamp(-1, 1)
        for optimizer in optimizers:
            optimizer.step()
        total = loss_encoder.item() + loss_discriminator.item()
        print(f"step {i} loss {total:.6f}")
    for scheduler in schedulers:
        scheduler.step()
