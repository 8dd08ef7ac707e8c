"""Measurements with jitter, read by one function for both."""

import torch
from torch import nn

torch.manual_seed(23)
x = torch.randn(600, 10)
y = x[:, :3].argmax(1)


def batches(rows, size):
    for pick in rows.split(size):
        yield x[pick] + 0.2 * torch.randn(len(pick), 10), y[pick]


train, valid = torch.arange(480), torch.arange(480, 600)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for bx, by in batches(train[torch.randperm(480)], 24):
        loss = nn.functional.cross_entropy(model(bx), by)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [nn.functional.cross_entropy(model(bx), by, reduction="sum").item() for bx, by in batches(valid, 60)]
    print(epoch, sum(losses) / len(valid))
