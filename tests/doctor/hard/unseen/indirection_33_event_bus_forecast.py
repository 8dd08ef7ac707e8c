# kind: behind indirection
# expect: nothing
# like: schedule-wrong-unit
# why: The LambdaLR is stepped once a batch by an event handler, far from the loop, but its warm-up and its length were
#      computed in batches (epochs * len(loader)), and the lambda returns a factor.
import math
from collections import defaultdict
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Bus:
    def __init__(self):
        self._subs = defaultdict(list)

    def on(self, name):
        def deco(fn):
            self._subs[name].append(fn)
            return fn
        return deco

    def emit(self, name, **payload):
        for fn in self._subs[name]:
            fn(**payload)


@dataclass
class Config:
    epochs: int = 9
    batch: int = 64
    lr: float = 2e-3
    warmup_epochs: float = 1.0
    past: int = 48
    horizon: int = 8
    seed: int = 5
    history: list = field(default_factory=list)


class Windows(Dataset):
    """Random phases of a two-season demand curve; every item is a series of its own."""

    def __init__(self, n, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        length = cfg.past + cfg.horizon
        t = torch.arange(length).float()
        day = torch.rand(n, 1, generator=g) * 2 * math.pi
        week = torch.rand(n, 1, generator=g) * 2 * math.pi
        amp = 0.5 + torch.rand(n, 2, generator=g)
        y = amp[:, :1] * torch.sin(2 * math.pi * t / 12 + day) + amp[:, 1:] * torch.sin(2 * math.pi * t / 31 + week)
        self.data = y + 0.08 * torch.randn(n, length, generator=g)
        self.past = cfg.past

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i, : self.past], self.data[i, self.past:]


class Forecaster(nn.Module):
    def __init__(self, past, horizon, width=64):
        super().__init__()
        self.inp = nn.Linear(past, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(3)
        )
        self.out = nn.Linear(width, horizon)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


def warm_cosine(warm, total):
    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.05 + 0.475 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))
    return factor


def run(cfg):
    torch.manual_seed(cfg.seed)
    train = DataLoader(Windows(1600, cfg, 1), cfg.batch, shuffle=True)
    valid = DataLoader(Windows(400, cfg, 2), 200)
    model = Forecaster(cfg.past, cfg.horizon)
    opt = torch.optim.NAdam(model.parameters(), lr=cfg.lr)
    per_epoch = len(train)
    sched = LambdaLR(opt, warm_cosine(int(cfg.warmup_epochs * per_epoch), cfg.epochs * per_epoch))
    crit = nn.MSELoss()
    bus = Bus()

    @bus.on("batch")
    def learn(x, y):
        opt.zero_grad(set_to_none=True)
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        bus.emit("updated", loss=loss.item(), size=len(x))

    @bus.on("updated")
    def schedule(**_):
        sched.step()

    @bus.on("updated")
    def record(loss, size):
        cfg.history.append((loss, size))

    @bus.on("epoch_end")
    def validate(epoch):
        model.eval()
        err = n = 0
        with torch.no_grad():
            for x, y in valid:
                err += (model(x) - y).pow(2).sum().item()
                n += y.numel()
        tr = sum(a * b for a, b in cfg.history) / sum(b for _, b in cfg.history)
        cfg.history.clear()
        print(f"epoch {epoch} train {tr:.4f} valid {err / n:.4f} lr {sched.get_last_lr()[0]:.2e}")

    for epoch in range(cfg.epochs):
        model.train()
        for x, y in train:
            bus.emit("batch", x=x, y=y)
        bus.emit("epoch_end", epoch=epoch)


run(Config())
