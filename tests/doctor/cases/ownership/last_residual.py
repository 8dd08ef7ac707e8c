"""Blocks that hand on a residual and add to a forecast, as N-BEATS has them: nobody takes the residual of the last one."""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, past, future, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(past, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.explain, self.predict = nn.Linear(width, past), nn.Linear(width, future)

    def forward(self, x):
        h = self.body(x)
        return self.explain(h), self.predict(h)


class Forecaster(nn.Module):
    def __init__(self, past, future, blocks=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(past, future) for _ in range(blocks))

    def forward(self, x):
        total = 0
        for block in self.blocks:
            explained, predicted = block(x)
            x, total = x - explained, total + predicted
        return x, total


net = Forecaster(20, 5)
optimizer = torch.optim.Adam(net.parameters())
for _ in range(520):
    phase = 6.28 * torch.rand(16, 1)
    waves = torch.sin(torch.arange(25) * 0.3 + phase) + 0.05 * torch.randn(16, 25)
    _, forecast = net(waves[:, :20])
    loss = nn.functional.mse_loss(forecast, waves[:, 20:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
