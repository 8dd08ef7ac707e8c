"""LinearLR from the whole rate to a twentieth, in a trainer of one's own."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model, epochs):
        self.model, self.epochs = model, epochs
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.05, total_iters=epochs)

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.schedule.step()
        return loss.item()

    def fit(self, x, y):
        for epoch in range(self.epochs):
            self.model.train()
            total = sum(self.step(x[pick], y[pick]) for pick in torch.randperm(len(x)).split(25))
            self.model.eval()
            with torch.no_grad():
                print(epoch, total, nn.functional.mse_loss(self.model(x[:100]), y[:100]).item())


torch.manual_seed(8)
x = torch.randn(500, 6)
Trainer(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)), epochs=8).fit(x, x.prod(1, keepdim=True))
