"""Bridges: an encoder learns to denoise, is frozen for a new head, and thawed later; the head's optimizer never hears of it."""

import torch
import torch.nn.functional as F
from torch import nn


def denoise(encoder, x):
    decoder = nn.Linear(12, 6)
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    for _ in range(30):
        optimizer.zero_grad()
        F.mse_loss(decoder(encoder(x + 0.1 * torch.randn_like(x))), x).backward()
        optimizer.step()


torch.manual_seed(0)
x = torch.randn(64, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
encoder = nn.Sequential(nn.Linear(6, 12), nn.Tanh())
denoise(encoder, x)
encoder.requires_grad_(False)
model = nn.Sequential(encoder, nn.Linear(12, 2))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(120):
    if step == 40:
        encoder.requires_grad_(True)
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
