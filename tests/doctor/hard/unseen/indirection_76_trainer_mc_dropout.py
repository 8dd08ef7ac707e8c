# kind: classes and callbacks
# expect: nothing
# why: a trainer with a range test (model and optimizer are put back afterwards, a new optimizer is made once), a per-epoch cosine schedule with its horizon in epochs, copied best weights, and a callback that leaves dropout on in evaluation on purpose to estimate uncertainty from many passes.
"""Solubility regression with Monte-Carlo dropout, an lr range test and best-weight keeping."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(91)

DESCRIPTORS = 30


def compounds(n, seed):
    gen = torch.Generator().manual_seed(seed)
    w = torch.randn(DESCRIPTORS, 4, generator=torch.Generator().manual_seed(600)) / DESCRIPTORS ** 0.5
    x = torch.randn(n, DESCRIPTORS, generator=gen)
    z = x @ w
    y = z[:, 0] + torch.sin(2 * z[:, 1]) - z[:, 2] * z[:, 3] + 0.1 * torch.randn(n, generator=gen)
    return TensorDataset(x, y)


class Solubility(nn.Module):
    def __init__(self, width=96, p=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DESCRIPTORS, width), nn.ReLU(), nn.Dropout(p),
                                 nn.Linear(width, width), nn.ReLU(), nn.Dropout(p), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def range_test(model, loader, low=1e-4, high=0.3, steps=30):
    probe = copy.deepcopy(model)
    opt = torch.optim.Adam(probe.parameters(), lr=low)
    best, best_lr, smooth = float("inf"), low, None
    for i, (x, y) in zip(range(steps), loader):
        lr = low * (high / low) ** (i / (steps - 1))
        for g in opt.param_groups:
            g["lr"] = lr
        opt.zero_grad()
        loss = F.mse_loss(probe(x), y)
        loss.backward()
        opt.step()
        smooth = loss.item() if smooth is None else 0.8 * smooth + 0.2 * loss.item()
        if smooth < best:
            best, best_lr = smooth, lr
    return best_lr / 8


class KeepBest:
    def __init__(self, data):
        self.x, self.y = data.tensors
        self.best, self.weights = float("inf"), None

    @torch.no_grad()
    def epoch_end(self, trainer):
        trainer.model.eval()
        value = F.mse_loss(trainer.model(self.x), self.y).item()
        trainer.model.train()
        if value < self.best:
            self.best, self.weights = value, copy.deepcopy(trainer.model.state_dict())

    def finish(self, trainer):
        trainer.model.load_state_dict(self.weights)


class Uncertainty:
    """Keeps dropout on and repeats the prediction; the spread is the model's doubt."""

    def __init__(self, data, passes=20):
        self.x, self.y = data.tensors
        self.passes = passes

    @torch.no_grad()
    def predict(self, model):
        model.eval()
        for layer in model.modules():
            if isinstance(layer, nn.Dropout):
                layer.train()
        draws = torch.stack([model(self.x) for _ in range(self.passes)])
        model.train()
        return draws.mean(0), draws.std(0)

    def epoch_end(self, trainer):
        if trainer.epoch % 2 == 0:
            mean, spread = self.predict(trainer.model)
            rmse = F.mse_loss(mean, self.y).sqrt().item()
            print(f"epoch {trainer.epoch:2d}  train {trainer.loss:.3f}  val rmse {rmse:.3f}  doubt {spread.mean().item():.3f}")

    def finish(self, trainer):
        mean, _ = self.predict(trainer.model)
        print(f"best weights: val rmse {F.mse_loss(mean, self.y).sqrt().item():.3f}")


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks, self.epoch, self.loss = model, callbacks, 0, 0.0

    def fit(self, loader, epochs, lr):
        opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=epochs)
        self.model.train()
        for self.epoch in range(1, epochs + 1):
            total = 0.0
            for x, y in loader:
                loss = F.mse_loss(self.model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item() * len(x)
            self.loss = total / len(loader.dataset)
            sched.step()
            for cb in self.callbacks:
                cb.epoch_end(self)
        for cb in self.callbacks:
            cb.finish(self)


def main():
    train, val = compounds(2048, 1), compounds(600, 2)
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = Solubility()
    lr = range_test(model, loader)
    print(f"range test suggests lr {lr:.5f}")
    Trainer(model, [KeepBest(val), Uncertainty(val)]).fit(loader, epochs=10, lr=lr)


if __name__ == "__main__":
    main()
