"""Distances between pairs, some of which are the same thing twice: the root is guarded after it is taken."""

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
    away = torch.where(square > 0, square.sqrt(), torch.zeros_like(square))
    loss = (away - (a - b).norm(dim=1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
