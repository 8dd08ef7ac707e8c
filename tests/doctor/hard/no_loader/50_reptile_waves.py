# kind: without a DataLoader
# expect: nothing
# like: optimizer-recreated
# why: Reptile: every task gets a fresh clone and a fresh momentum-free SGD by design; the lasting optimizer is the outer
#      one, which gets the difference of the weights as its gradient.
import copy
import math

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(303)


class WaveTasks:
    """An endless supply of sine waves; each task is one wave with its own height and phase."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def __iter__(self):
        return self

    def __next__(self):
        height = 0.5 + 1.5 * torch.rand(1, generator=self.gen)
        phase = math.pi * torch.rand(1, generator=self.gen)

        def points(n):
            x = torch.rand(n, 1, generator=self.gen) * 2 - 1
            return x, height * torch.sin(math.pi * x + phase)
        return points


class Learner(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.f(x)


mse = nn.MSELoss()


def adapt(model, points, steps, batch, lr):
    """A clone of `model` after a few steps on one task."""
    clone = copy.deepcopy(model)
    clone.train()
    inner = torch.optim.SGD(clone.parameters(), lr=lr)
    for _ in range(steps):
        x, y = points(batch)
        inner.zero_grad()
        loss = mse(clone(x), y)
        loss.backward()
        inner.step()
    return clone, loss.item()


def meta_direction(model, clones):
    """The gradient of the outer step: where we are minus where the tasks went."""
    with torch.no_grad():
        for p, *others in zip(model.parameters(), *(c.parameters() for c in clones)):
            p.grad = p - torch.stack(list(others)).mean(0)


def exam(model, papers, steps, lr):
    """Adapt to the support points of tasks never trained on; the query points are scored without gradients."""
    before, after = [], []
    for (sx, sy), (qx, qy) in papers:
        clone, _ = adapt(model, lambda n: (sx, sy), steps, len(sx), lr)
        clone.eval()
        model.eval()
        with torch.no_grad():
            before.append(mse(model(qx), qy).item())
            after.append(mse(clone(qx), qy).item())
        model.train()
    return sum(before) / len(before), sum(after) / len(after)


def main(meta_updates=150, tasks_per_update=3, inner_steps=6, inner_lr=0.05):
    supply = WaveTasks(seed=1)
    foreign = WaveTasks(seed=2)
    papers = []
    for _ in range(8):
        points = next(foreign)
        papers.append((points(10), points(50)))

    model = Learner()
    outer = torch.optim.SGD(model.parameters(), lr=0.6)
    running = []
    for k in range(1, meta_updates + 1):
        clones = []
        for _ in range(tasks_per_update):
            clone, last = adapt(model, next(supply), inner_steps, 16, inner_lr)
            clones.append(clone)
            running.append(last)
        outer.zero_grad()
        meta_direction(model, clones)
        outer.step()
        if k % 25 == 0:
            before, after = exam(model, papers, inner_steps, inner_lr)
            print(f"meta {k:4d}  inner loss {sum(running) / len(running):.4f}  exam {before:.3f} -> {after:.3f}")
            running.clear()


main()
