# kind: without a DataLoader
# expect: nothing
# like: augmented-validation
# why: Noise and timesteps are drawn for validation too, but from a generator seeded anew for every evaluation, so
#      each reading of the validation points is noised identically.
import math
from types import SimpleNamespace

import torch
from torch import nn

cfg = SimpleNamespace(seed=31, points=4000, held=800, batch=128, steps=360, T=60, lr=2e-3, every=40)
torch.set_num_threads(1)
torch.manual_seed(cfg.seed)


def spirals(n, gen):
    t = torch.rand(n, generator=gen).sqrt() * 3 * math.pi
    sign = torch.randint(0, 2, (n,), generator=gen) * 2 - 1
    xy = torch.stack([t.cos() * t, t.sin() * t], 1) * sign[:, None]
    return xy + 0.25 * torch.randn(n, 2, generator=gen)


class Schedule:
    def __init__(self, T):
        beta = torch.linspace(1e-3, 0.12, T)
        self.keep = torch.cumprod(1 - beta, 0)
        self.T = T

    def corrupt(self, x, gen):
        t = torch.randint(0, self.T, (len(x),), generator=gen)
        eps = torch.randn(x.shape, generator=gen)
        a = self.keep[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * eps, t, eps


class Denoiser(nn.Module):
    def __init__(self, T, width=96, freqs=8):
        super().__init__()
        self.T = T
        self.register_buffer("freq", 2.0 ** torch.arange(freqs) * math.pi / 2)
        self.inp = nn.Linear(2 + 2 * freqs, width)
        self.mid = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        ang = (t.float() / self.T)[:, None] * self.freq
        h = nn.functional.silu(self.inp(torch.cat([x, ang.sin(), ang.cos()], 1)))
        for layer in self.mid:
            h = h + nn.functional.silu(layer(h))
        return self.out(h)


def endless(data, batch, gen):
    while True:
        order = torch.randperm(len(data), generator=gen)
        for lo in range(0, len(data) - batch + 1, batch):
            yield data[order[lo:lo + batch]]


data_gen = torch.Generator().manual_seed(cfg.seed)
cloud = spirals(cfg.points, data_gen)
held, cloud = cloud[:cfg.held], cloud[cfg.held:]
center, spread = cloud.mean(0), cloud.std(0)
cloud, held = (cloud - center) / spread, (held - center) / spread

sched = Schedule(cfg.T)
model = Denoiser(cfg.T)
opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
noise_gen = torch.Generator().manual_seed(cfg.seed + 1)


def held_out_loss():
    gen = torch.Generator().manual_seed(2024)
    model.eval()
    losses = []
    with torch.no_grad():
        for part in held.chunk(4):
            noisy, t, eps = sched.corrupt(part, gen)
            losses.append(nn.functional.mse_loss(model(noisy, t), eps).item())
    model.train()
    return sum(losses) / len(losses)


model.train()
recent = []
for step, x in zip(range(1, cfg.steps + 1), endless(cloud, cfg.batch, data_gen)):
    noisy, t, eps = sched.corrupt(x, noise_gen)
    loss = nn.functional.mse_loss(model(noisy, t), eps)
    opt.zero_grad()
    loss.backward()
    opt.step()
    recent.append(loss.item())
    if step % cfg.every == 0:
        print(f"step {step:4d}  train {sum(recent[-cfg.every:]) / cfg.every:.4f}  held out {held_out_loss():.4f}")
