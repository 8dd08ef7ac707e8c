# kind: classes and callbacks
# expect: averaged-batchnorm-stale
# why: the averaging callback copies the model at its start and then follows the parameters only; the BatchNorm statistics of the averaged copy stay as they were at step 20 and no longer fit its weights when it is evaluated and reported.
"""Trainer with an averaged copy of a CNN for the final evaluation (star and galaxy stamps)."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(81)

KINDS, SIZE = 6, 12


def stamps(n, seed):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, KINDS, (n,), generator=gen)
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, SIZE), torch.linspace(-1, 1, SIZE), indexing="ij")
    cx, cy = (0.3 * torch.randn(2, n, 1, 1, generator=gen)).unbind(0)
    wide = 0.15 + 0.12 * (y % 3).float().view(-1, 1, 1)
    tall = wide * (1 + 0.9 * (y // 3).float().view(-1, 1, 1))
    img = torch.exp(-((xx - cx) / wide) ** 2 - ((yy - cy) / tall) ** 2)
    img = 2.5 * img + 0.35 * torch.randn(n, SIZE, SIZE, generator=gen)
    return TensorDataset(img.unsqueeze(1), y)


def network(ch=16):
    def unit(i, o):
        return nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
    return nn.Sequential(unit(1, ch), unit(ch, 2 * ch), nn.Flatten(), nn.Linear(2 * ch * 9, KINDS))


@torch.no_grad()
def measure(model, data):
    was = model.training
    model.eval()
    x, y = data.tensors
    logits = model(x)
    model.train(was)
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


class WeightAverage:
    """Exponential average of the weights, from a given step on."""

    def __init__(self, start=20, decay=0.95):
        self.start, self.decay, self.shadow = start, decay, None

    def after_step(self, trainer):
        if trainer.step < self.start:
            return
        if self.shadow is None:
            self.shadow = copy.deepcopy(trainer.model).requires_grad_(False).eval()
            return
        with torch.no_grad():
            live = dict(trainer.model.named_parameters())
            for name, p in self.shadow.named_parameters():
                p.mul_(self.decay).add_(live[name], alpha=1 - self.decay)


class Log:
    def __init__(self, data, average, every):
        self.data, self.average, self.every = data, average, every

    def after_step(self, trainer):
        if trainer.step % self.every == 0:
            loss, acc = measure(self.average.shadow, self.data)
            print(f"step {trainer.step:4d}  train {trainer.loss:.3f}  averaged model: loss {loss:.3f} acc {acc:.3f}")


class Trainer:
    def __init__(self, model, lr, callbacks):
        self.model, self.callbacks = model, callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4)
        self.step, self.loss = 0, None

    def fit(self, loader, epochs):
        self.model.train()
        for _ in range(epochs):
            for x, y in loader:
                loss = F.cross_entropy(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.step, self.loss = self.step + 1, loss.item()
                for cb in self.callbacks:
                    cb.after_step(self)


def main():
    train, val, test = stamps(2048, 1), stamps(500, 2), stamps(1500, 3)
    average = WeightAverage()
    trainer = Trainer(network(), 0.08, [average, Log(val, average, every=64)])
    trainer.fit(DataLoader(train, batch_size=64, shuffle=True), epochs=8)
    loss, acc = measure(average.shadow, test)
    print(f"test, averaged model: loss {loss:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
