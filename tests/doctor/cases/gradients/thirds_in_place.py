"""Accumulates three micro-batches a step, divides, and clears in place, for longer than anybody looks at every backward."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(480, 12)
y = (x[:, :3]).argmax(1)

for epoch in range(6):
    order = torch.randperm(480)
    for start in range(0, 480, 48):
        for part in order[start : start + 48].split(16):
            (nn.functional.cross_entropy(net(x[part]), y[part]) / 3).backward()
        opt.step()
        net.zero_grad(set_to_none=False)
