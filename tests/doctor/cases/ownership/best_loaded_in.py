"""Train, fall back to the best model when validation stalls, go on."""

import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)
x = torch.randn(900, 10)
y = torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(900, 1)
xt, yt, xv, yv = x[:700], y[:700], x[700:], y[700:]
model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
best, best_model = float("inf"), None
for epoch in range(24):
    model.train()
    for rows in torch.randperm(700).split(35):
        optimizer.zero_grad()
        loss = F.mse_loss(model(xt[rows]), yt[rows])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        valid = F.mse_loss(model(xv), yv).item()
    if valid < best:
        best, best_model = valid, copy.deepcopy(model)
    if epoch == 14:
        model.load_state_dict(best_model.state_dict())
        for group in optimizer.param_groups:
            group["lr"] /= 5
    print(epoch + 1, f"{loss.item():.4f} {valid:.4f}")
