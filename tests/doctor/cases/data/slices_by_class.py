"""Grains of four sorts in slices of the table, which is sorted by sort; a round has more batches than a short look shows."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.cat([torch.randn(240, 5) + 0.7 * sort for sort in range(4)])
y = torch.arange(4).repeat_interleave(240)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for start in range(0, len(x), 8):
        optimizer.zero_grad()
        F.cross_entropy(model(x[start : start + 8]), y[start : start + 8]).backward()
        optimizer.step()
