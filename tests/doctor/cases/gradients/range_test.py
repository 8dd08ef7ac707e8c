"""Raise the learning rate from next to nothing until the loss goes up, to see where to begin."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(480, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), batch_size=16, shuffle=True)


def find_lr(model, start=1e-7, end=3.0):
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=start)
    factor = (end / start) ** (1 / len(loader))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factor**step)
    best, seen = float("inf"), []
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
        scheduler.step()
        seen.append((scheduler.get_last_lr()[0], loss.item()))
        best = min(best, loss.item())
        if loss.item() > 4 * best:
            break
    return min(seen, key=lambda pair: pair[1])[0] / 10


model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
lr = find_lr(model)
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
for epoch in range(2):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, lr, loss.item())
