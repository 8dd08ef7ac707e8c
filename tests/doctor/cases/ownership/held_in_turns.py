"""Both layers take turns: the gradient of one is set to zero. And a layer that stays as it is, under SGD that keeps nothing."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(256, 6)
loader = DataLoader(TensorDataset(x, (x[:, 0] * x[:, 1] > 0).long()), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
fixed = torch.optim.SGD(model[0].parameters(), lr=0.1)
optimizer = torch.optim.Adam(model[2:].parameters(), lr=1e-3)
step = 0
for epoch in range(8):
    for xb, yb in loader:
        optimizer.zero_grad()
        fixed.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        for p in model[2 if step % 2 else 4].parameters():
            p.grad.zero_()
        if epoch >= 1:
            model[0].weight.grad.zero_()
        optimizer.step()
        fixed.step()
        step += 1
