"""Predict the energy use of a building from weather readings."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Regressor(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.hidden = nn.Linear(features, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(F.gelu(self.hidden(x))).squeeze(-1)


class Runner:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.history = {"loss": [], "lr": []}

    def fit(self, x, y, epochs, batch_size):
        for _ in range(epochs):
            order = torch.randperm(len(x))
            for start in range(0, len(x), batch_size):
                idx = order[start : start + batch_size]
                loss = F.mse_loss(self.model(x[idx]), y[idx])
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.history["loss"].append(loss)
                self.history["lr"].append(self.optimizer.param_groups[0]["lr"])

    def summary(self):
        tail = self.history["loss"][-10:]
        return sum(float(v.detach()) for v in tail) / len(tail)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args()
    torch.manual_seed(3)
    weather = torch.randn(256, 6)
    use = weather @ torch.tensor([0.5, -1.0, 0.2, 0.0, 0.7, 0.1]) + 0.1 * torch.randn(256)
    runner = Runner(Regressor(6, 16), args.lr)
    runner.fit(weather, use, args.epochs, 32)
    print("mean of the last losses:", round(runner.summary(), 4))
