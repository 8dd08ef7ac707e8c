"""A table in batches of a generator that is made, with its seed, in each step; only its first batch is ever taken."""

import torch
import torch.nn.functional as F
from torch import nn


def batches(x, y, size, seed):
    source = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(x), generator=source)
        for start in range(0, len(x), size):
            chosen = order[start : start + size]
            yield x[chosen], y[chosen]


torch.manual_seed(0)
x = torch.randn(400, 6)
y = x[:, :1] * x[:, 1:2]
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    xb, yb = next(batches(x, y, 20, seed=7))
    optimizer.zero_grad()
    F.mse_loss(model(xb), yb).backward()
    optimizer.step()
