"""What is left of an epoch gets a step after the loop, without a loader; each loss is a fifth, of four as of five."""

import torch
from torch import nn

torch.manual_seed(3)
x = torch.randn(240, 6)
y = x.sum(1, keepdim=True).tanh()
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.2)


def micro_batches(size):
    yield from torch.randperm(len(x)).split(size)


for epoch in range(6):
    waiting = 0
    for rows in micro_batches(10):
        loss = (net(x[rows]) - y[rows]).pow(2).mean()
        (0.2 * loss).backward()
        waiting += 1
        if waiting == 5:
            optimizer.step()
            optimizer.zero_grad()
            waiting = 0
    if waiting:
        optimizer.step()
        optimizer.zero_grad()
