"""A small table, trained on as a whole; which rows are held out is drawn anew, with the same seed, wherever they are needed."""

import torch
import torch.nn.functional as F
from torch import nn


def part(x, y, kind):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(7))
    chosen = order[:300] if kind == "train" else order[300:]
    return x[chosen], y[chosen]


torch.manual_seed(0)
x = torch.randn(400, 6)
y = x[:, :1] * x[:, 1:2]
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    xb, yb = part(x, y, "train")
    optimizer.zero_grad()
    F.mse_loss(model(xb), yb).backward()
    optimizer.step()
    with torch.no_grad():
        xv, yv = part(x, y, "held out")
        held_out = F.mse_loss(model(xv), yv)
