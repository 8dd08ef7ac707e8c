# kind: classes and callbacks
# expect: nothing
# why: the uncertainty callback switches only the Dropout layers to train mode under no_grad and averages repeated passes over the same inputs (MC dropout), restoring the mode afterwards; the plain validation runs in eval mode. The moving average model is a deep copy, updated by hand.
"""Regression with MC-dropout uncertainty and an averaged copy of the weights, driven by callbacks."""
import contextlib
import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(40)


@contextlib.contextmanager
def stochastic(model):
    modes = {m: m.training for m in model.modules()}
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()
    try:
        yield model
    finally:
        for m, mode in modes.items():
            m.training = mode


class MovingAverage:
    def __init__(self, model, decay):
        self.copy, self.decay = copy.deepcopy(model).eval().requires_grad_(False), decay

    @torch.no_grad()
    def after_step(self, trainer):
        for a, p in zip(self.copy.parameters(), trainer.model.parameters()):
            a.lerp_(p, 1 - self.decay)

    def after_epoch(self, trainer): ...


class Uncertainty:
    def __init__(self, x, y, passes=20, every=4):
        self.x, self.y, self.passes, self.every = x, y, passes, every

    def after_step(self, trainer): ...

    @torch.no_grad()
    def after_epoch(self, trainer):
        if trainer.epoch % self.every:
            return
        with stochastic(trainer.model) as m:
            draws = torch.stack([m(self.x) for _ in range(self.passes)])
        mean, std = draws.mean(0), draws.std(0)
        err = (mean - self.y).abs()
        corr = torch.corrcoef(torch.cat([err, std], 1).T)[0, 1].item()
        print(f"epoch {trainer.epoch:2d} mc rmse {err.square().mean().sqrt():.3f} mean std {std.mean():.3f} corr(error, std) {corr:.2f}")


class Trainer:
    def __init__(self, model, lr, callbacks):
        self.model, self.callbacks, self.epoch = model, callbacks, 0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def fit(self, loader, epochs):
        for self.epoch in range(1, epochs + 1):
            self.model.train()
            for x, y in loader:
                self.optimizer.zero_grad()
                F.mse_loss(self.model(x), y).backward()
                self.optimizer.step()
                for c in self.callbacks:
                    c.after_step(self)
            for c in self.callbacks:
                c.after_epoch(self)


@torch.no_grad()
def rmse(model, x, y):
    model.eval()
    return F.mse_loss(model(x), y).sqrt().item()


def simulate(n):
    x = torch.randn(n, 6)
    return x, torch.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(n, 1)


def main():
    loader = DataLoader(TensorDataset(*simulate(1600)), batch_size=64, shuffle=True)
    xv, yv = simulate(500)
    model = nn.Sequential(nn.Linear(6, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 1))
    average = MovingAverage(model, decay=0.97)
    trainer = Trainer(model, 3e-3, [average, Uncertainty(xv, yv)])
    trainer.fit(loader, epochs=16)
    print(f"rmse last {rmse(model, xv, yv):.3f} averaged {rmse(average.copy, xv, yv):.3f} trivial {yv.std():.3f}")


if __name__ == "__main__":
    main()
