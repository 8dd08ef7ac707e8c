"""Gradients of two tasks are taken one by one, projected, and put together."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

for step in range(40):
    x = torch.randn(24, 6)
    targets = torch.stack([x[:, 0] * x[:, 1], x[:, 2]], dim=1)
    gradients = []
    for task in range(2):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x)[:, task], targets[:, task])
        loss.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    a, b = gradients
    if a @ b < 0:
        a, b = a - (a @ b) / (b @ b) * b, b - (a @ b) / (a @ a) * a
    place = 0
    for p in model.parameters():
        p.grad = (a + b)[place : place + p.numel()].view_as(p)
        place += p.numel()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
