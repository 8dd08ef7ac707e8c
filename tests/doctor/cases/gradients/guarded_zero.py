"""Replaces bad gradients by zero and keeps stepping the momentum."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(240, 5)
y = x.sum(dim=1, keepdim=True)
x[::60, 0] = float("inf")
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for epoch in range(3):
    bad = 0
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        loss.backward()
        if not all(torch.isfinite(p.grad).all() for p in model.parameters()):
            bad += 1
            optimizer.zero_grad(set_to_none=False)
        optimizer.step()
    print(epoch, "bad", bad)
