"""Bridges: an encoder learns to denoise; then a head is trained on what it gives, and the encoder is left as it is."""

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
model = nn.Sequential(encoder, nn.Linear(12, 2))
optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
for step in range(120):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
