# kind: classes and callbacks
# expect: nothing
# why: Dropout in train mode under no_grad is Monte-Carlo dropout (many stochastic passes, averaged), the clip with max_norm=inf after the step only logs the norm, and the averaged teacher is a deep copy updated by hand.
"""Regression with Monte-Carlo dropout intervals, a gradient logger and an averaged copy."""
import copy

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(141)


class Callback:
    def after_step(self, run):
        pass

    def after_epoch(self, run):
        pass


class GradientLogger(Callback):
    def __init__(self):
        self.norms = []

    def after_step(self, run):
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), float("inf"))
        self.norms.append(norm.item())

    def after_epoch(self, run):
        run.log["grad"] = sum(self.norms) / len(self.norms)
        self.norms.clear()


class Averaged(Callback):
    def __init__(self, model, decay=0.98):
        self.copy = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay

    @torch.no_grad()
    def after_step(self, run):
        for a, p in zip(self.copy.parameters(), run.model.parameters()):
            a.lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def after_epoch(self, run):
        run.log["averaged_mse"] = F.mse_loss(self.copy(run.xv), run.yv).item()


class MonteCarlo(Callback):
    """Predictive interval from repeated passes with dropout switched on."""

    def __init__(self, passes=30):
        self.passes = passes

    @torch.no_grad()
    def after_epoch(self, run):
        model = run.model
        model.eval()
        run.log["valid_mse"] = F.mse_loss(model(run.xv), run.yv).item()
        for m in model.modules():
            if isinstance(m, nn.Dropout):
                m.train()
        draws = torch.stack([model(run.xv) for _ in range(self.passes)])
        mean, std = draws.mean(0), draws.std(0) + 0.1
        run.log["coverage"] = ((run.yv - mean).abs() < 2 * std).float().mean().item()
        model.train()


class Run:
    def __init__(self, model, valid, callbacks):
        self.model, (self.xv, self.yv), self.callbacks = model, valid, callbacks
        self.opt = torch.optim.Adam(model.parameters(), lr=2e-3)
        self.log = {}

    def emit(self, event):
        for cb in self.callbacks:
            getattr(cb, event)(self)

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                self.opt.zero_grad()
                F.mse_loss(self.model(x), y).backward()
                self.opt.step()
                self.emit("after_step")
            self.emit("after_epoch")
            print(f"epoch {epoch} " + " ".join(f"{k} {v:.3f}" for k, v in self.log.items()))


def make_split(n, g):
    x = torch.rand(n, 6, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(n, 1, generator=g)
    return x, y


def main():
    g = torch.Generator().manual_seed(47)
    train, valid = make_split(2560, g), make_split(512, g)
    model = nn.Sequential(nn.Linear(6, 96), nn.ReLU(), nn.Dropout(0.1),
                          nn.Linear(96, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 1))
    loader = DataLoader(TensorDataset(*train), batch_size=64, shuffle=True)
    Run(model, valid, [GradientLogger(), Averaged(model), MonteCarlo()]).fit(loader, 6)


if __name__ == "__main__":
    main()
