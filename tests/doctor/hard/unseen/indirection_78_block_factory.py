# kind: behind indirection
# expect: layer-shared-by-accident
# why: the block factory is memoised with lru_cache, so the six blocks asked for with the same arguments are one and the same module; the "deep" network has the weights of one block.
"""Aerodynamic surrogate: residual network assembled from a small declarative spec."""
from functools import lru_cache, reduce
import math
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(14)

SPEC = """
stem   width=48
block  width=48 expand=2 act=silu
block  width=48 expand=2 act=silu
block  width=48 expand=2 act=silu
block  width=48 expand=2 act=silu
block  width=48 expand=2 act=silu
block  width=48 expand=2 act=silu
head   width=48
"""
ACTS = {"silu": nn.SiLU, "gelu": nn.GELU}
IN, OUT = 10, 3


@lru_cache(maxsize=256)
def parse(line):
    kind, *rest = line.split()
    conv = lambda v: int(v) if v.isdigit() else v
    return kind, tuple(sorted((k, conv(v)) for k, v in (item.split("=") for item in rest)))


class Residual(nn.Module):
    def __init__(self, width, expand, act):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width * expand)
        self.act = ACTS[act]()
        self.down = nn.Linear(width * expand, width)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


@lru_cache(maxsize=256)
def build(kind, options):
    opt = dict(options)
    if kind == "stem":
        return nn.Linear(IN, opt["width"])
    if kind == "head":
        return nn.Sequential(nn.LayerNorm(opt["width"]), nn.Linear(opt["width"], OUT))
    return Residual(**opt)


def assemble(spec):
    return nn.ModuleList(build(*parse(line)) for line in spec.strip().splitlines())


class Surrogate(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.stages = assemble(spec)

    def forward(self, x):
        return reduce(lambda h, stage: stage(h), self.stages, x)


def wind_tunnel(n, gen):
    x = torch.rand(n, IN, generator=gen) * 2 - 1
    a, b, c = x[:, 0] * 3, x[:, 1] * 2, x[:, 2]
    lift = torch.sin(a + b * c) + x[:, 3] * x[:, 4]
    drag = (a * c).cos() * torch.tanh(2 * x[:, 5]) + 0.5 * b * x[:, 6]
    moment = torch.sin(math.pi * x[:, 7] * x[:, 8]) + torch.exp(-(x[:, 9] - c) ** 2)
    return x, torch.stack([lift, drag, moment], 1)


def main():
    gen = torch.Generator().manual_seed(4)
    x, y = wind_tunnel(4000, gen)
    xv, yv = wind_tunnel(1000, gen)
    model = Surrogate(SPEC)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    steps = 420
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 30) * 0.5 * (1 + math.cos(math.pi * s / steps)))
    for step in range(steps):
        idx = torch.randint(0, len(x), (128,), generator=gen)
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 70 == 69:
            model.eval()
            with torch.no_grad():
                v = nn.functional.mse_loss(model(xv), yv).item()
            model.train()
            print(f"step {step + 1:4d} train {loss.item():.4f} valid {v:.4f}")


main()
