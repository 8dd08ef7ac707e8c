"""A VAE whose KL weight grows during the run, so the loss grows with it."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, d=8, z=2):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, 16), nn.ReLU(), nn.Linear(16, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 16), nn.ReLU(), nn.Linear(16, d))

    def forward(self, x):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def main():
    torch.manual_seed(0)
    base = torch.randn(240, 2)
    x = 0.1 * torch.cat([base, base**2, base * 0.5, -base], dim=1)
    loader = DataLoader(TensorDataset(x), batch_size=24, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    step, steps = 0, 80
    for epoch in range(8):
        for (xb,) in loader:
            beta = 1e-3 * 10 ** (2.5 * step / steps)
            recon, mu, logvar = model(xb)
            kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
            loss = F.mse_loss(recon, xb) + beta * (kl + 3.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(epoch, loss.item())


main()
