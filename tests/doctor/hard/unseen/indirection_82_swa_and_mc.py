# kind: classes and callbacks
# expect: nothing
# why: accumulation with a ragged tail, an averaged model with BatchNorm and dropout left on under no_grad; the tail is stepped and divided by its own count, OneCycle is stepped per optimizer step, update_bn runs before the averaged model is used, and the stochastic forwards are Monte-Carlo dropout with BatchNorm in eval.
"""Turbine fault classifier: trainer with callbacks, weight averaging and predictive uncertainty."""
import math
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(81)


def turbine(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    t = torch.arange(48) / 48 * 2 * math.pi
    base = torch.sin((2 + y[:, None]) * t + 6 * torch.rand(n, 1, generator=g))
    return TensorDataset((base + 0.9 * torch.randn(n, 48, generator=g)).unsqueeze(1), y)


def build():
    return nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2),
                         nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.BatchNorm1d(32), nn.ReLU(),
                         nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(32, 4))


class Trainer:
    ACCUM = 3

    def __init__(self, model, loader, epochs, callbacks=()):
        self.model, self.loader, self.epochs, self.callbacks = model, loader, epochs, callbacks
        self.cycles = math.ceil(len(loader) / self.ACCUM)
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=0.25, total_steps=epochs * self.cycles)

    def groups(self):
        held = []
        for batch in self.loader:
            held.append(batch)
            if len(held) == self.ACCUM:
                yield held
                held = []
        if held:
            yield held

    def step(self, group):
        rows = sum(len(y) for _, y in group)
        total = 0.0
        for x, y in group:
            loss = nn.functional.cross_entropy(self.model(x), y, reduction="sum") / rows
            loss.backward()
            total += loss.item() * rows
        self.opt.step()
        self.opt.zero_grad()
        self.sched.step()
        return total

    def run(self):
        for self.epoch in range(self.epochs):
            self.model.train()
            losses = [self.step(group) for group in self.groups()]
            print(f"epoch {self.epoch} loss {sum(losses) / len(self.loader.dataset):.4f} lr {self.sched.get_last_lr()[0]:.4f}")
            for cb in self.callbacks:
                cb(self)


class Averaging:
    def __init__(self, model, start):
        self.avg, self.start = AveragedModel(model), start

    def __call__(self, trainer):
        if trainer.epoch >= self.start:
            self.avg.update_parameters(trainer.model)
        if trainer.epoch == trainer.epochs - 1:
            update_bn(trainer.loader, self.avg)


@torch.no_grad()
def monte_carlo(model, x, draws=12):
    model.eval()
    for m in model.modules():
        if isinstance(m, nn.Dropout):
            m.train()
    probs = torch.stack([model(x).softmax(-1) for _ in range(draws)])
    model.eval()
    return probs.mean(0), probs.std(0).mean().item()


def main():
    loader = DataLoader(turbine(1310, 1), batch_size=32, shuffle=True)
    averaging = Averaging(model := build(), start=6)
    Trainer(model, loader, epochs=10, callbacks=[averaging]).run()
    x, y = turbine(500, 2).tensors
    with torch.no_grad():
        plain = (averaging.avg.eval()(x).argmax(1) == y).float().mean().item()
    mean, spread = monte_carlo(averaging.avg, x)
    print(f"averaged model {plain:.3f}, monte-carlo {(mean.argmax(1) == y).float().mean().item():.3f}, spread {spread:.4f}")


main()
