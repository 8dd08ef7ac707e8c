# kind: numbers
# expect: graph-kept
# why: the hand-written running averages take the loss tensors with their graphs, so each average holds the
#   chain of all graphs since the first step.
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


class Smoothed:
    """Bias-corrected exponential averages by name."""

    def __init__(self, beta=0.95):
        self.beta = beta
        self.value = {}
        self.count = {}

    def update(self, **scalars):
        for name, x in scalars.items():
            old = self.value.get(name, 0.0)
            self.value[name] = self.beta * old + (1 - self.beta) * x
            self.count[name] = self.count.get(name, 0) + 1

    def __str__(self):
        parts = []
        for name, v in self.value.items():
            parts.append(f"{name} {v / (1 - self.beta ** self.count[name]):.3f}")
        return "  ".join(parts)


class CurveVAE(nn.Module):
    def __init__(self, points, latent=4, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(points, width), nn.GELU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.GELU(), nn.Linear(width, points))

    def encode(self, x):
        return self.encoder(x).chunk(2, dim=1)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decoder(z), mu, logvar


def terms(x, out, mu, logvar):
    recon = (x - out).square().sum(dim=1).mean()
    kl = 0.5 * (mu.square() + logvar.exp() - 1 - logvar).sum(dim=1).mean()
    return recon, kl


def pulse_curves(n, points=48):
    t = torch.linspace(0, 1, points)
    centre = 0.25 + 0.5 * torch.rand(n, 1)
    width = 0.05 + 0.1 * torch.rand(n, 1)
    height = 1 + 2 * torch.rand(n, 1)
    slope = torch.randn(n, 1)
    return height * torch.exp(-0.5 * ((t - centre) / width) ** 2) + slope * t + 0.05 * torch.randn(n, points)


def main():
    torch.manual_seed(29)
    curves = pulse_curves(2600)
    train, valid = curves[:2000], curves[2000:]
    mean, std = train.mean(0), train.std(0)
    train, valid = (train - mean) / std, (valid - mean) / std
    loader = DataLoader(TensorDataset(train), batch_size=50, shuffle=True)

    vae = CurveVAE(train.shape[1])
    optimizer = torch.optim.Adam(vae.parameters(), lr=2e-3)
    stats = Smoothed()
    epochs = 9
    for epoch in range(epochs):
        beta = 0.2 * (1 - math.cos(math.pi * min(1.0, (epoch + 1) / 4))) / 2
        vae.train()
        for (x,) in loader:
            recon, kl = terms(x, *vae(x))
            loss = recon + beta * kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            stats.update(loss=loss, recon=recon, kl=kl)
        vae.eval()
        with torch.no_grad():
            mu, logvar = vae.encode(valid)
            recon, kl = terms(valid, vae.decoder(mu), mu, logvar)
        print(f"epoch {epoch}  {stats}  valid recon {recon.item():.3f} kl {kl.item():.3f}")


if __name__ == "__main__":
    main()
