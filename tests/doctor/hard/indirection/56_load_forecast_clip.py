# kind: behind indirection
# expect: clip-of-nothing
# why: `trainable` is a filter object; the optimizer's constructor exhausts it, so the clipping function bound to it with functools.partial sees no parameters at all and never scales anything, although the rare spike batches need it.
"""Electricity load model with heavy-tailed meter faults; trained with clipped SGD."""
from functools import partial

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(13)

LAGS = 24


def clip_by_global_norm(params, max_norm):
    """Scales the gradients in place; returns the norm before scaling."""
    grads = [p.grad for p in params if p.grad is not None]
    norm = torch.sqrt(sum((g.square().sum() for g in grads), torch.zeros(())))
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(factor)
    return norm


class Meter:
    """Simulated households: daily pattern, weather, and now and then a broken meter."""

    def __init__(self, seed, faults):
        self.gen = torch.Generator().manual_seed(seed)
        self.faults = faults

    def batch(self, n):
        hour = torch.randint(0, 24, (n, 1), generator=self.gen)
        t = (hour + torch.arange(LAGS + 1)[None]).float()
        amp = 0.5 + torch.rand(n, 1, generator=self.gen)
        load = amp * torch.sin(2 * torch.pi * t / 24) + 0.4 * amp * torch.cos(4 * torch.pi * t / 24)
        load = load + 0.05 * torch.randn(n, LAGS + 1, generator=self.gen)
        if self.faults and torch.rand((), generator=self.gen) < 0.08:
            broken = torch.randint(0, n, (3,), generator=self.gen)
            load[broken, -1] += 60.0 * torch.rand(3, generator=self.gen)
        return load[:, :-1], load[:, -1]


class LoadNet(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.embed = nn.Linear(LAGS, hidden)
        self.mix = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU())
        self.out = nn.Linear(hidden, 1)
        self.register_parameter("scale", nn.Parameter(torch.ones(1), requires_grad=False))

    def forward(self, x):
        h = self.embed(x)
        return self.out(h + self.mix(h)).squeeze(1) * self.scale


def make_update(model, lr, max_norm):
    trainable = filter(lambda p: p.requires_grad, model.parameters())
    opt = torch.optim.SGD(trainable, lr=lr, momentum=0.9, nesterov=True)
    clip = partial(clip_by_global_norm, trainable, max_norm)

    def update(x, y):
        opt.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        clip()
        opt.step()
        return loss.item()
    return update


def main():
    train, clean = Meter(1, faults=True), Meter(2, faults=False)
    x_val, y_val = clean.batch(1000)
    model = LoadNet()
    update = make_update(model, lr=0.01, max_norm=0.5)
    for step in range(1, 901):
        loss = update(*train.batch(64))
        if step % 100 == 0:
            model.eval()
            with torch.no_grad():
                rmse = nn.functional.mse_loss(model(x_val), y_val).sqrt().item()
            model.train()
            print(f"step {step:4d}  train mse {loss:9.4f}  val rmse {rmse:.4f}")


if __name__ == "__main__":
    main()
