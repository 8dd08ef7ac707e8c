# kind: several losses and optimizers
# expect: nothing
# like: optimizer-recreated
# why: First-order MAML; every task gets a fresh inner SGD over a fresh copy of the weights, as the method
#      asks, while the one outer Adam keeps its state.
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


class Patients:
    """Every task is one patient with a dose-response curve of their own."""

    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def uniform(self, lo, hi, *shape):
        return lo + (hi - lo) * torch.rand(*shape, generator=self.g)

    def task(self, shots, queries):
        amp, phase = self.uniform(0.5, 1.5, 1), self.uniform(0, math.pi, 1)
        x = self.uniform(-1, 1, shots + queries, 1)
        y = amp * torch.sin(3 * x + phase) + 0.05 * torch.randn(shots + queries, 1, generator=self.g)
        return (x[:shots], y[:shots]), (x[shots:], y[shots:])


class Meta:
    def __init__(self, inner_lr, inner_steps, outer_lr):
        self.net = nn.Sequential(nn.Linear(1, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
        self.outer = torch.optim.Adam(self.net.parameters(), lr=outer_lr)
        self.inner_lr, self.inner_steps = inner_lr, inner_steps

    def adapt(self, support):
        learner = copy.deepcopy(self.net)
        inner = torch.optim.SGD(learner.parameters(), lr=self.inner_lr)
        x, y = support
        for _ in range(self.inner_steps):
            inner.zero_grad()
            F.mse_loss(learner(x), y).backward()
            inner.step()
        return learner

    def outer_step(self, tasks):
        self.outer.zero_grad()
        total = 0.0
        for support, (x, y) in tasks:
            learner = self.adapt(support)
            loss = F.mse_loss(learner(x), y)
            grads = torch.autograd.grad(loss, list(learner.parameters()))
            for p, g in zip(self.net.parameters(), grads):
                share = g / len(tasks)
                p.grad = share if p.grad is None else p.grad + share
            total += loss.item()
        self.outer.step()
        return total / len(tasks)

    def evaluate(self, tasks):
        total = 0.0
        for support, (x, y) in tasks:
            learner = self.adapt(support).eval()
            with torch.no_grad():
                total += F.mse_loss(learner(x), y).item()
        return total / len(tasks)


def main():
    torch.manual_seed(77)
    train_patients, valid_patients = Patients(seed=1), Patients(seed=2)
    valid_tasks = [valid_patients.task(10, 30) for _ in range(40)]
    meta = Meta(inner_lr=0.02, inner_steps=3, outer_lr=1e-3)
    print(f"before: adapted valid mse {meta.evaluate(valid_tasks):.4f}")
    running = 0.0
    for it in range(1, 301):
        running += meta.outer_step([train_patients.task(10, 20) for _ in range(4)])
        if it % 60 == 0:
            print(f"iteration {it}: train {running / 60:.4f} adapted valid mse {meta.evaluate(valid_tasks):.4f}")
            running = 0.0


if __name__ == "__main__":
    main()
