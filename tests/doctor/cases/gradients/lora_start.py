"""Adapters that start at zero, warm-up, then a cosine down to nothing."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, i, o, r=2):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i) / math.sqrt(i), requires_grad=False)
        self.a = nn.Parameter(torch.randn(r, i) / math.sqrt(i))
        self.b = nn.Parameter(torch.zeros(o, r))

    def forward(self, x):
        return F.linear(x, self.weight) + x @ self.a.T @ self.b.T


torch.manual_seed(0)
model = nn.Sequential(LoRALinear(8, 24), nn.ReLU(), LoRALinear(24, 3))
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=2e-3)
total, warm = 80, 8
schedule = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda s: min(1.0, s / warm) * 0.5 * (1 + math.cos(math.pi * min(s, total) / total))
)
mixing = torch.randn(8, 3)
for step in range(total):
    x = torch.randn(24, 8)
    loss = F.cross_entropy(model(x), (x @ mixing).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
print("loss", loss.item())
