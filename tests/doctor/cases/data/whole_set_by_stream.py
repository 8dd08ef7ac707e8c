"""A stream whose only batch is the whole set, once an epoch; what is drawn in each step by a seed is the noise of the weights."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(64, 6)
y = x[:, :2].sum(1, keepdim=True)


def stream(size):
    for begin in range(0, 64, size):
        yield x[begin : begin + size], y[begin : begin + size]


def jitter(step):
    return torch.randn(64, 1, generator=torch.Generator().manual_seed(step))


net = nn.Linear(6, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for epoch in range(60):
    for a, b in stream(64):
        optimizer.zero_grad()
        F.mse_loss(net(a), b + 0.1 * jitter(epoch)).backward()
        optimizer.step()
