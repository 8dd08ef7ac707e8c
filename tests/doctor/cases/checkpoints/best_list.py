"""Early stopping that keeps a list of weights."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(20)
x = torch.randn(700, 9)
y = x[:, :1] ** 2 - x[:, 1:2] + 0.3 * torch.randn(700, 1)
model = nn.Sequential(nn.Linear(9, 80), nn.ReLU(), nn.Linear(80, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
best, kept, patience = float("inf"), None, 0
for epoch in range(25):
    for rows in torch.randperm(500).split(25):
        loss = F.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        valid = F.mse_loss(model(x[500:]), y[500:]).item()
    patience += 1
    if valid < best:
        best, patience = valid, 0
        kept = [p.data for p in model.parameters()]
    if patience > 4:
        break
with torch.no_grad():
    for p, q in zip(model.parameters(), kept):
        p.copy_(q)
    print(f"best {best:.4f}, restored {F.mse_loss(model(x[500:]), y[500:]).item():.4f}")
