"""Invariant risk: a scale of 1 that only serves to measure a gradient."""

import torch
from torch import nn

torch.manual_seed(5)
model = nn.Linear(8, 1)
scale = torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    total = 0.0
    for noise in (0.1, 1.0):
        x = torch.randn(32, 8)
        y = x[:, :1] + noise * torch.randn(32, 1)
        error = nn.functional.mse_loss(scale * model(x), y)
        (slope,) = torch.autograd.grad(error, scale, create_graph=True)
        total = total + error + slope**2
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
print(total.item())
