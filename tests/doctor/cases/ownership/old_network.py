"""Learning without forgetting: a regression that must not lose the old range."""

import torch
from torch import nn


class Keeper:
    def __init__(self, network, strength):
        self.before, self.strength = network, strength

    def penalty(self, x, now):
        with torch.no_grad():
            then = self.before(x)
        return self.strength * nn.functional.mse_loss(now, then)


def train(model, low, high, keeper=None):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(60):
        x = low + (high - low) * torch.rand(64, 1)
        y = torch.sin(x)
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        if keeper is not None:
            loss = loss + keeper.penalty(x.clone(), out)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


torch.manual_seed(10)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
train(model, -3, 0)
train(model, -1, 2, Keeper(model, 0.5))
