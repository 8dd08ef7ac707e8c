"""A helper clears, goes back and steps; the loop steps once more on the same gradients."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)


def update(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(40):
    x = torch.randn(16, 6)
    y = x[:, :3].argmax(1)
    update(nn.functional.cross_entropy(net(x), y))
    optimizer.step()
