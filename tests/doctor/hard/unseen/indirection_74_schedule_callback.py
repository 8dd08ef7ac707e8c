# kind: classes and callbacks
# expect: schedule-wrong-unit
# why: the cosine schedule's horizon is counted in optimizer updates, but its callback runs on every micro-batch (4 per update); the learning rate is at zero after a quarter of the training and three quarters of the updates do nothing.
"""Trainer with callbacks and gradient accumulation for a GRU on sensor sequences."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(71)


def sequences(n, seed, length=16):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(n, length, 3, generator=gen)
    gate = torch.sigmoid(2 * x[..., 1])
    acc = torch.zeros(n)
    for t in range(length):
        acc = gate[:, t] * acc + (1 - gate[:, t]) * x[:, t, 0]
    return TensorDataset(x, acc + 0.3 * x[:, -1, 2])


class Sensor(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(3, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1]).squeeze(1)


class Callback:
    def on_fit_start(self, trainer): pass
    def on_batch_end(self, trainer): pass
    def on_update_end(self, trainer): pass
    def on_epoch_end(self, trainer): pass


class WarmupCosine(Callback):
    def __init__(self, warmup=0.05):
        self.warmup = warmup

    def on_fit_start(self, trainer):
        total = trainer.total_updates
        ramp = max(1, int(self.warmup * total))

        def factor(t):
            if t < ramp:
                return (t + 1) / ramp
            progress = min(1.0, (t - ramp) / (total - ramp))
            return 0.5 * (1 + math.cos(math.pi * progress))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(trainer.optimizer, factor)

    def on_batch_end(self, trainer):
        if trainer.updates > 0:
            self.schedule.step()


class Report(Callback):
    def __init__(self, data, every):
        self.x, self.y = data.tensors
        self.every = every

    @torch.no_grad()
    def on_epoch_end(self, trainer):
        if trainer.epoch % self.every:
            return
        trainer.model.eval()
        rmse = F.mse_loss(trainer.model(self.x), self.y).sqrt().item()
        trainer.model.train()
        print(f"epoch {trainer.epoch:3d}  updates {trainer.updates:4d}  "
              f"train {trainer.running:.4f}  val rmse {rmse:.4f}")


class Trainer:
    def __init__(self, model, optimizer, callbacks, accumulate):
        self.model, self.optimizer = model, optimizer
        self.callbacks, self.accumulate = callbacks, accumulate
        self.updates = self.epoch = 0
        self.running = 0.0

    def _call(self, name):
        for cb in self.callbacks:
            getattr(cb, name)(self)

    def fit(self, loader, epochs):
        self.total_updates = epochs * (len(loader) // self.accumulate)
        self._call("on_fit_start")
        self.model.train()
        for self.epoch in range(1, epochs + 1):
            total = 0.0
            for i, (x, y) in enumerate(loader, 1):
                loss = F.mse_loss(self.model(x), y)
                (loss / self.accumulate).backward()
                total += loss.item()
                if i % self.accumulate == 0:
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.updates += 1
                    self._call("on_update_end")
                self._call("on_batch_end")
            self.running = total / len(loader)
            self._call("on_epoch_end")


def main():
    loader = DataLoader(sequences(1024, 1), batch_size=32, shuffle=True, drop_last=True)
    model = Sensor()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    Trainer(model, optimizer, [WarmupCosine(), Report(sequences(800, 2), every=4)], accumulate=4).fit(loader, epochs=20)


if __name__ == "__main__":
    main()
