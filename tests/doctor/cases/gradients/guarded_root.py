"""Distances between pairs, some of which are the same thing twice: what goes into the root is guarded."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(60):
    a = torch.randn(16, 4)
    b = a + 0.3 * torch.randn(16, 4)
    if step >= 12:
        b[0] = a[0]
    square = (net(a) - net(b)).square().sum(1)
    apart = square > 0
    away = torch.where(apart, square, 1.0).sqrt() * apart
    loss = (away - (a - b).norm(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
