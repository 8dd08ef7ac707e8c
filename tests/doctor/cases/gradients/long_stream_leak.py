"""Forty-one cycles of three and two micro-batches more in each pass over a generator: they go into the next pass."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
x = torch.randn(500, 5)
y = (x[:, 0] * x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


def passes(count):
    for _ in range(count):
        yield from enumerate(torch.randperm(500).split(4))


optimizer.zero_grad()
for i, rows in passes(5):
    (F.cross_entropy(net(x[rows]), y[rows]) / 3).backward()
    if (i + 1) % 3 == 0:
        optimizer.step()
        optimizer.zero_grad()
