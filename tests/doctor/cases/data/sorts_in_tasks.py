"""Grains of eight sorts, two at a time: each task has its own epochs over slices in which both of its sorts are mixed."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for task in range(4):
    y = 2 * task + torch.randint(0, 2, (96,))
    x = torch.randn(96, 5) + 0.7 * y[:, None]
    for epoch in range(4):
        for start in range(0, len(x), 8):
            optimizer.zero_grad()
            F.cross_entropy(model(x[start : start + 8]), y[start : start + 8]).backward()
            optimizer.step()
