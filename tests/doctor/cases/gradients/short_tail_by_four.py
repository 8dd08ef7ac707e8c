"""Eleven micro-batches an epoch, four to a step: the last three get a step of their own, and are divided by four all the same."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
ACCUMULATE = 4
x = torch.randn(176, 8)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(5):
    optimizer.zero_grad()
    for i, (xb, yb) in enumerate(loader):
        loss = F.cross_entropy(model(xb), yb) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    print(epoch, loss.item() * ACCUMULATE)
