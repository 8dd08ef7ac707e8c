"""Waves: trained in float32, then cast to bfloat16 to go on with the same optimizer at a small rate: its updates round away."""

import torch
import torch.nn.functional as F
from torch import nn


def train(steps, dtype):
    for _ in range(steps):
        rows = torch.randint(512, (32,))
        loss = F.mse_loss(model(x[rows].to(dtype)).float(), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
x = torch.randn(512, 16)
y = torch.tanh(x[:, :1] - x[:, 1:2])
model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
train(60, torch.float32)
model.to(torch.bfloat16)
optimizer.param_groups[0]["lr"] = 1e-4
train(60, torch.bfloat16)
