"""Heads of several tasks in a list, called in turn; the loss of the last one is left out of the sum."""

import torch
from torch import nn

torch.manual_seed(0)


class Tasks(nn.Module):
    def __init__(self, tasks=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(32, 1) for _ in range(tasks))

    def forward(self, x):
        h = self.body(x)
        return [head(h) for head in self.heads]


net = Tasks()
weights = torch.randn(8, 3)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(520):
    x = torch.randn(32, 8)
    y = (x @ weights).split(1, dim=1)
    losses = [nn.functional.mse_loss(output, target) for output, target in zip(net(x), y, strict=True)]
    optimizer.zero_grad()
    sum(losses[:2]).backward()
    optimizer.step()
