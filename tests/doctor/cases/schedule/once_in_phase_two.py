"""Three phases, each with an optimizer of its own, made on a line of its own."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long()), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))


def epoch(optimizer):
    for xb, yb in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        optimizer.step()


first = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(3):
    epoch(first)
second = torch.optim.Adam(model.parameters(), lr=1e-4)
epoch(second)
third = torch.optim.Adam(model.parameters(), lr=1e-5)
epoch(third)
