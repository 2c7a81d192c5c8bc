"""RecVAE: collaborative filtering with a composite prior, a beta per user, and alternating updates of encoder and decoder."""

import argparse
from copy import deepcopy

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--hidden-dim", type=int, default=64)
parser.add_argument("--latent-dim", type=int, default=24)
parser.add_argument("--items", type=int, default=120)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--gamma", type=float, default=0.005)
parser.add_argument("--lr", type=float, default=5e-3)
parser.add_argument("--dropout-rate", type=float, default=0.0)
args = parser.parse_args()

seed = 1337
np.random.seed(seed)
torch.manual_seed(seed)
device = torch.device("cuda:0")


def swish(x):
    return x.mul(torch.sigmoid(x))


def log_norm_pdf(x, mu, logvar):
    return -0.5 * (logvar + np.log(2 * np.pi) + (x - mu).pow(2) / logvar.exp())


class CompositePrior(nn.Module):
    """A mixture of a standard normal, the encoder of the previous epoch, and a wide normal."""

    def __init__(self, hidden_dim, latent_dim, input_dim, mixture_weights=(3 / 20, 3 / 4, 1 / 10)):
        super().__init__()
        self.mixture_weights = mixture_weights
        self.mu_prior = nn.Parameter(torch.zeros(1, latent_dim), requires_grad=False)
        self.logvar_prior = nn.Parameter(torch.zeros(1, latent_dim), requires_grad=False)
        self.logvar_uniform_prior = nn.Parameter(torch.full((1, latent_dim), 10.0), requires_grad=False)
        self.encoder_old = Encoder(hidden_dim, latent_dim, input_dim)
        self.encoder_old.requires_grad_(False)

    def forward(self, x, z):
        post_mu, post_logvar = self.encoder_old(x, 0)
        standard = log_norm_pdf(z, self.mu_prior, self.logvar_prior)
        posterior = log_norm_pdf(z, post_mu, post_logvar)
        wide = log_norm_pdf(z, self.mu_prior, self.logvar_uniform_prior)
        gaussians = [standard, posterior, wide]
        gaussians = [g.add(np.log(w)) for g, w in zip(gaussians, self.mixture_weights, strict=True)]
        return torch.logsumexp(torch.stack(gaussians, dim=-1), dim=-1)


class Encoder(nn.Module):
    """Densely connected layers: the input of each is the sum of all outputs before it."""

    def __init__(self, hidden_dim, latent_dim, input_dim, layers=5, eps=1e-1):
        super().__init__()
        self.fcs = nn.ModuleList(nn.Linear(input_dim if i == 0 else hidden_dim, hidden_dim) for i in range(layers))
        self.lns = nn.ModuleList(nn.LayerNorm(hidden_dim, eps=eps) for _ in range(layers))
        self.fc_mu = nn.Linear(hidden_dim, latent_dim)
        self.fc_logvar = nn.Linear(hidden_dim, latent_dim)

    def forward(self, x, dropout_rate):
        norm = x.pow(2).sum(dim=-1).sqrt()
        x = F.dropout(x / norm[:, None], p=dropout_rate, training=self.training)
        total = 0
        for fc, ln in zip(self.fcs, self.lns, strict=True):
            x = ln(swish(fc(x) + total))
            total = total + x
        return self.fc_mu(x), self.fc_logvar(x)


class VAE(nn.Module):
    def __init__(self, hidden_dim, latent_dim, input_dim):
        super().__init__()
        self.encoder = Encoder(hidden_dim, latent_dim, input_dim)
        self.prior = CompositePrior(hidden_dim, latent_dim, input_dim)
        self.decoder = nn.Linear(latent_dim, input_dim)

    def reparameterize(self, mu, logvar):
        if not self.training:
            return mu
        eps = torch.randn(*mu.shape).to(mu.device)
        return mu + eps * torch.exp(0.5 * logvar)

    def forward(self, ratings, gamma, dropout_rate):
        mu, logvar = self.encoder(ratings, dropout_rate=dropout_rate)
        z = self.reparameterize(mu, logvar)
        prediction = self.decoder(z)
        kl_weight = gamma * ratings.sum(dim=-1)
        mll = (F.log_softmax(prediction, dim=-1) * ratings).sum(dim=-1).mean()
        kld = (log_norm_pdf(z, mu, logvar) - self.prior(ratings, z)).sum(dim=-1).mul(kl_weight).mean()
        return -(mll - kld)

    def update_prior(self):
        self.prior.encoder_old.load_state_dict(deepcopy(self.encoder.state_dict()))


def generate(batch_size, device, data_in):
    for start in range(0, len(data_in), batch_size):
        yield torch.Tensor(data_in[start : start + batch_size]).to(device)


model = VAE(args.hidden_dim, args.latent_dim, args.items).to(device)
optimizer_encoder = optim.Adam(model.encoder.parameters(), lr=args.lr)
optimizer_decoder = optim.Adam(model.decoder.parameters(), lr=args.lr)
train_data = (np.random.rand(3 * args.batch_size, args.items) < 0.15).astype("float32")
train_data[:, 0] = 1

model.train()
for step, ratings in enumerate(generate(args.batch_size, device, train_data)):
    for optimizer, dropout in ((optimizer_encoder, args.dropout_rate), (optimizer_decoder, 0)):
        optimizer.zero_grad()
        loss = model(ratings, gamma=args.gamma, dropout_rate=dropout)
        loss.backward()
        optimizer.step()
    model.update_prior()
    print(f"step {step} loss {loss.item():.6f}")
