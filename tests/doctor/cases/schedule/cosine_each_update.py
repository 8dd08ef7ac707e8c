"""A cosine written into the optimizer before each of many updates, planned for all of them."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(1280, 8)
y = x[:, :2].sum(1, keepdim=True) + 0.1 * torch.randn(1280, 1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
total, step = 10 * len(loader), 0
for epoch in range(10):
    for a, b in loader:
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * (0.05 + 0.475 * (1 + math.cos(math.pi * step / total)))
        optimizer.zero_grad()
        F.mse_loss(model(a), b).backward()
        optimizer.step()
        step += 1
