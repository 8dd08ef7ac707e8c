"""Every step adds up the gradients of the next three batches, of a stream that begins anew with the call."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x = torch.randn(640, 6)
y = x[:, :2].sum(1, keepdim=True)


class Reader:
    def __init__(self, size):
        self.size = size
        self.order = torch.randperm(640)

    def __iter__(self):
        for rows in self.order.split(self.size):
            yield {"input": x[rows], "target": y[rows]}


def step(net, optimizer, reader):
    optimizer.zero_grad()
    for number, batch in enumerate(reader):
        (F.mse_loss(net(batch["input"]), batch["target"]) / 3).backward()
        if number == 2:
            break
    optimizer.step()


net = nn.Linear(6, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
reader = Reader(16)
for _ in range(60):
    step(net, optimizer, reader)
