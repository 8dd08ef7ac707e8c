# kind: behind indirection
# expect: schedule-wrong-unit
# also: vanishing-updates
# why: the decay is given the number of epochs as its length, but the callback steps it after every batch, so the
#      learning rate is at its floor after 12 batches of the first epoch.
"""Texture classification with a home-made polynomial decay hooked into the trainer as a bound method."""

import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, TensorDataset


class PolyDecay(LRScheduler):
    """lr = floor + (base - floor) * (1 - t / total) ** power"""

    def __init__(self, optimizer, total, power=0.9, floor=1e-5):
        self.total, self.power, self.floor = total, power, floor
        super().__init__(optimizer)

    def get_lr(self):
        left = max(0.0, 1.0 - self.last_epoch / self.total) ** self.power
        return [self.floor + (b - self.floor) * left for b in self.base_lrs]


class Fit:
    def __init__(self, model, opt):
        self.model, self.opt, self.after_step, self.after_epoch = model, opt, [], []

    def run(self, train, valid, epochs):
        for epoch in range(epochs):
            self.model.train()
            total = 0.0
            for x, y in train:
                self.opt.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.opt.step()
                for fn in self.after_step:
                    fn()
                total += loss.item() * len(y)
            for fn in self.after_epoch:
                fn(epoch, total / len(train.dataset), self.evaluate(valid))

    @torch.no_grad()
    def evaluate(self, valid):
        self.model.eval()
        return sum((self.model(x).argmax(1) == y).sum().item() for x, y in valid) / len(valid.dataset)


def textures(n, g, classes=5, size=16):
    y = torch.randint(0, classes, (n,), generator=g)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    angle = (3.1416 * y / classes)[:, None, None]
    wave = torch.sin(0.9 * (xx * angle.cos() + yy * angle.sin()) + 6.28 * torch.rand(n, 1, 1, generator=g))
    x = wave + 0.9 * torch.randn(n, size, size, generator=g)
    return TensorDataset(((x - x.mean()) / x.std())[:, None], y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.manual_seed(15)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(150)
    train, valid = DataLoader(textures(1920, g), 32, shuffle=True), DataLoader(textures(480, g), 96)
    net = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 5),
    )
    opt = torch.optim.Adam(net.parameters(), lr=args.lr)
    decay = PolyDecay(opt, total=args.epochs)
    fit = Fit(net, opt)
    fit.after_step.append(decay.step)
    fit.after_epoch.append(lambda e, l, a: print(f"epoch {e:2d} loss {l:.4f} valid acc {a:.3f} lr {decay.get_last_lr()[0]:.2e}"))
    fit.run(train, valid, args.epochs)


if __name__ == "__main__":
    main()
