"""Seven micro-batches an epoch, four to a step: the last three get a step of their own, divided by three."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
x = torch.randn(112, 5)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

for _ in range(20):
    optimizer.zero_grad()
    batches = torch.randperm(112).split(16)
    for i, rows in enumerate(batches):
        together = 4 if i < 4 else 3
        (F.cross_entropy(net(x[rows]), y[rows]) / together).backward()
        if i in (3, 6):
            optimizer.step()
            optimizer.zero_grad()
