"""A GAN for points on a ring."""

import math

import torch
from torch import nn

torch.manual_seed(0)
nz, batch = 4, 32
G = nn.Sequential(nn.Linear(nz, 24), nn.ReLU(), nn.Linear(24, 2))
D = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
optG = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(batch, 1), torch.zeros(batch, 1)

for step in range(40):
    angle = torch.rand(batch) * 2 * math.pi
    real = torch.stack([angle.cos(), angle.sin()], 1)
    noise = torch.randn(batch, nz)

    # discriminator
    fake = G(noise)
    d_loss = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)
    d_loss.backward()
    optD.step()
    optD.zero_grad()

    # generator
    g_loss = criterion(D(fake), ones)
    g_loss.backward()
    optG.step()
    optG.zero_grad()

    if step % 10 == 0:
        print(f"{step}: d {d_loss.item():.3f} g {g_loss.item():.3f}")
