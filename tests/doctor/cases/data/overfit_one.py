"""Sanity check first: can the model learn one batch by heart? Then train."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


torch.manual_seed(0)
x = torch.randn(200, 8)
y = (x.prod(1) > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 2))

trial = copy.deepcopy(model)
trial_optimizer = torch.optim.Adam(trial.parameters(), lr=1e-2)
xb, yb = next(iter(loader))
for _ in range(60):
    last = step(trial, trial_optimizer, xb, yb)
print("one batch:", last)

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for xb, yb in loader:
        last = step(model, optimizer, xb, yb)
    print(epoch, last)
