"""Each step moves all weights uphill for its gradient, and takes that off again: before the step at first, then after it."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(640, 10)
y = (x[:, :3].sum(1) > 0).long()
net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


@torch.no_grad()
def uphill(size):
    moves = []
    for weight in net.parameters():
        moves.append(size * weight.grad / weight.grad.norm())
        weight.add_(moves[-1])
    return moves


@torch.no_grad()
def undo(moves):
    for weight, move in zip(net.parameters(), moves, strict=True):
        weight.sub_(move)


for step in range(120):
    rows = torch.randint(640, (32,))
    optimizer.zero_grad()
    F.cross_entropy(net(x[rows]), y[rows]).backward()
    moves = uphill(0.05)
    optimizer.zero_grad()
    F.cross_entropy(net(x[rows]), y[rows]).backward()
    if step < 60:
        undo(moves)
        optimizer.step()
    else:
        optimizer.step()
        undo(moves)
