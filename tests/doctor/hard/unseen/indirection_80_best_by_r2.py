# kind: classes and callbacks
# expect: metric-broadcast
# why: in R2.on_batch the targets (N,) are subtracted from predictions (N,1), giving N x N residuals; the loss itself is right. The reported R2 stays below zero, falls as the model improves, and the best weights, chosen by it, are those of the first epoch.
"""Soil moisture regression with a small event-driven trainer; best weights by validation R2."""
import copy
from collections import defaultdict
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(41)


class Engine:
    def __init__(self, model, optimizer):
        self.model, self.opt = model, optimizer
        self.handlers = defaultdict(list)
        self.metrics = {}
        self.epoch = 0

    def on(self, event):
        def register(fn):
            self.handlers[event].append(fn)
            return fn
        return register

    def fire(self, event, **payload):
        for fn in self.handlers[event]:
            fn(self, **payload)

    def fit(self, train, valid, epochs):
        for self.epoch in range(epochs):
            self.model.train()
            for x, y in train:
                pred = self.model(x)
                loss = nn.functional.smooth_l1_loss(pred, y.unsqueeze(-1))
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
            self.model.eval()
            self.fire("valid_start")
            with torch.no_grad():
                for x, y in valid:
                    self.fire("valid_batch", pred=self.model(x), y=y)
            self.fire("valid_end")
        self.fire("done")


class R2:
    def attach(self, engine):
        engine.on("valid_start")(self.reset)
        engine.on("valid_batch")(self.on_batch)
        engine.on("valid_end")(self.publish)

    def reset(self, engine):
        self.residual = self.n = self.sum = self.sq = 0.0

    def on_batch(self, engine, pred, y):
        self.residual += (y - pred).square().mean().item() * len(y)
        self.sum += y.sum().item()
        self.sq += y.square().sum().item()
        self.n += len(y)

    def publish(self, engine):
        total = self.sq - self.sum ** 2 / self.n
        engine.metrics["r2"] = 1 - self.residual / total


class KeepBest:
    def __init__(self, key):
        self.key, self.best, self.state, self.when = key, -float("inf"), None, None

    def attach(self, engine):
        engine.on("valid_end")(self.check)
        engine.on("done")(self.put_back)

    def check(self, engine):
        if engine.metrics[self.key] > self.best:
            self.best, self.when = engine.metrics[self.key], engine.epoch
            self.state = copy.deepcopy(engine.model.state_dict())

    def put_back(self, engine):
        engine.model.load_state_dict(self.state)
        print(f"best epoch {self.when} {self.key} {self.best:.4f}")


class Progress:
    def attach(self, engine):
        engine.on("valid_end")(lambda e: print(f"epoch {e.epoch} r2 {e.metrics['r2']:.4f}") if e.epoch % 4 == 0 else None)


def field(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    y = torch.sin(1.5 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.5 * x[:, 3:6].sum(1) + 0.2 * torch.randn(n, generator=g)
    return TensorDataset(x, y)


def main():
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.05), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    engine = Engine(model, torch.optim.Adam(model.parameters(), lr=2e-3))
    for part in (R2(), KeepBest("r2"), Progress()):
        part.attach(engine)
    engine.fit(DataLoader(field(1600, 1), 64, shuffle=True), DataLoader(field(600, 2), 200), epochs=16)
    x, y = field(600, 3).tensors
    with torch.no_grad():
        print(f"test mse {(model(x).squeeze(1) - y).square().mean().item():.4f} (variance {y.var().item():.4f})")


main()
