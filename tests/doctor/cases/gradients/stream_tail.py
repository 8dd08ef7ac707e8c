"""Batches come from a generator that is begun anew each epoch; five micro-batches make a step, and four are dropped each time."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
x = torch.randn(480, 6)
y = x @ torch.randn(6) + 0.1 * torch.randn(480)
valid = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=40)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)


def stream(size):
    rows = torch.randperm(400).tolist()
    while len(rows) >= size:
        yield torch.tensor([rows.pop() for _ in range(size)])


for epoch in range(4):
    optimizer.zero_grad()
    for i, rows in enumerate(stream(8)):
        if i == 49:
            break
        (F.mse_loss(net(x[rows])[:, 0], y[rows]) / 5).backward()
        if i % 5 == 4:
            optimizer.step()
            optimizer.zero_grad()
with torch.no_grad():
    print(sum(float(F.mse_loss(net(a)[:, 0], b)) for a, b in valid) / len(valid))
