# kind: classes and callbacks
# expect: trained-in-eval-mode
# why: the Validate callback fires every 15 steps inside an epoch and leaves the model in eval mode; train() is only called when an epoch starts, so two thirds and more of the steps run without dropout and with frozen BatchNorm statistics.
"""Event-driven training engine with validation every few steps inside an epoch."""
from collections import defaultdict

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(33)


class Engine:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.handlers, self.step, self.epoch = defaultdict(list), 0, 0

    def on(self, event, every=1):
        def add(fn):
            self.handlers[event].append((every, fn))
            return fn
        return add

    def fire(self, event, counter):
        for every, fn in self.handlers[event]:
            if counter % every == 0:
                fn(self)

    def run(self, loader, epochs):
        for self.epoch in range(1, epochs + 1):
            self.fire("epoch_started", self.epoch)
            for x, y in loader:
                self.optimizer.zero_grad()
                self.loss = F.cross_entropy(self.model(x), y)
                self.loss.backward()
                self.optimizer.step()
                self.loss = self.loss.item()
                self.step += 1
                self.fire("step_completed", self.step)
            self.fire("epoch_completed", self.epoch)


class Validate:
    def __init__(self, loader):
        self.loader, self.history = loader, []

    @torch.no_grad()
    def __call__(self, engine):
        engine.model.eval()
        loss = hit = n = 0
        for x, y in self.loader:
            out = engine.model(x)
            loss += F.cross_entropy(out, y, reduction="sum").item()
            hit += (out.argmax(1) == y).sum().item()
            n += len(x)
        self.history.append((loss / n, hit / n))


def build():
    layers, width = [], 24
    for _ in range(2):
        layers += [nn.Linear(width, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.5)]
        width = 128
    return nn.Sequential(*layers, nn.Linear(width, 5))


def make_set(n, w):
    x = torch.randn(n, 24)
    return TensorDataset(x, (torch.tanh(x) @ w + 0.8 * torch.randn(n, 5)).argmax(1))


def main():
    w = torch.randn(24, 5)
    train = DataLoader(make_set(1500, w), batch_size=30, shuffle=True)
    valid = DataLoader(make_set(800, w), batch_size=400)
    model = build()
    engine = Engine(model, torch.optim.Adam(model.parameters(), lr=2e-3))
    validate = Validate(valid)
    engine.on("epoch_started")(lambda e: e.model.train())
    engine.on("step_completed", every=15)(validate)

    @engine.on("epoch_completed", every=3)
    def report(e):
        loss, acc = validate.history[-1]
        print(f"epoch {e.epoch:2d} step {e.step} train {e.loss:.3f} valid {loss:.3f} accuracy {acc:.3f}")

    engine.run(train, epochs=12)
    print(f"best validation loss {min(validate.history)[0]:.3f}, last {validate.history[-1][0]:.3f}")


if __name__ == "__main__":
    main()
