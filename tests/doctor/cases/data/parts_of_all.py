"""Every step adds up the gradients of all that there is, in four parts of a generator that a seed has ordered."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def table():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(64, 6)).astype(np.float32)
    return x, x[:, :2].sum(1, keepdims=True)


def parts(x, y, size):
    order = np.random.default_rng(0).permutation(len(x))
    for begin in range(0, len(x), size):
        rows = order[begin : begin + size]
        yield torch.from_numpy(x[rows]), torch.from_numpy(y[rows])


def forever(x, y, size):
    order = np.random.default_rng(0).permutation(len(x))
    while True:
        for begin in range(0, len(x), size):
            rows = order[begin : begin + size]
            yield torch.from_numpy(x[rows]), torch.from_numpy(y[rows])


x, y = table()
net = nn.Linear(6, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    for number, (input, target) in enumerate(parts(x, y, 16)):
        (F.mse_loss(net(input), target) / 4).backward()
        if number == 3:
            break
    optimizer.step()

stream = forever(x, y, 16)
for _ in range(60):
    optimizer.zero_grad()
    for _ in range(4):
        input, target = next(stream)
        loss = F.mse_loss(net(input), target) / 4
        loss.backward()
    optimizer.step()
