# kind: second_phase
# expect: nothing
# why: Might be accused of augmented-validation, lr-overwritten-by-load, optimizer-recreated or symmetric-weights: validation noise is drawn once and kept, the resumed run loads model, optimizer, schedule and average of the first, and the last layer starts at zero on purpose.
"""Class-conditional DDPM on two moons, stopped half-way, saved, built anew and resumed."""
import io
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

T, STEPS, WARMUP, BATCH, NULL = 100, 900, 60, 256, 2
BETAS = torch.linspace(1e-3, 0.08, T)
ALPHA_BAR = torch.cumprod(1 - BETAS, 0)


def moons(n, gen):
    label = torch.randint(2, (n,), generator=gen)
    angle = torch.rand(n, generator=gen) * math.pi
    flip = 1.0 - 2.0 * label
    xy = torch.stack([angle.cos() * flip + label, angle.sin() * flip + 0.5 * label], 1)
    return (xy + 0.05 * torch.randn(n, 2, generator=gen)), label


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.label = nn.Embedding(3, width)
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Linear(2, width)
        self.blocks = nn.ModuleList([nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(3)])
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, -math.log(1000), 16)))

    def forward(self, x, t, y):
        angles = t.float().unsqueeze(1) * self.freqs
        h = self.inp(x) + self.time(torch.cat([angles.sin(), angles.cos()], 1)) + self.label(y)
        for block in self.blocks:
            h = h + block(h)
        return self.out(h)


def noised(x, t, eps):
    a = ALPHA_BAR[t].unsqueeze(1)
    return a.sqrt() * x + (1 - a).sqrt() * eps


def build():
    net = Denoiser()
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)

    def factor(step):
        if step < WARMUP:
            return (step + 1) / WARMUP
        return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))

    return {"net": net, "ema": ema, "opt": opt, "sched": torch.optim.lr_scheduler.LambdaLR(opt, factor)}


def batches(x, y):
    while True:
        order = torch.randperm(len(x))
        for idx in order.split(BATCH)[: len(x) // BATCH]:
            yield x[idx], y[idx]


def train(run, stream, first, last, valid):
    net, ema, opt, sched = (run[k] for k in ("net", "ema", "opt", "sched"))
    net.train()
    mean = 0.0
    for step in range(first, last):
        x, y = next(stream)
        t, eps = torch.randint(T, (len(x),)), torch.randn_like(x)
        y = torch.where(torch.rand(len(y)) < 0.1, torch.full_like(y, NULL), y)
        loss = F.mse_loss(net(noised(x, t, eps), t, y), eps)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update_parameters(net)
        mean = loss.item() if step == first else 0.98 * mean + 0.02 * loss.item()
        if (step + 1) % 150 == 0:
            print(f"step {step + 1}  lr {sched.get_last_lr()[0]:.5f}  train {mean:.4f}  valid {validate(ema, valid):.4f}")


@torch.no_grad()
def validate(model, fixed):
    model.eval()
    x, y, t, eps = fixed
    return F.mse_loss(model(noised(x, t, eps), t, y), eps).item()


@torch.no_grad()
def sample(model, y, guidance=1.5):
    model.eval()
    gen = torch.Generator().manual_seed(5)
    x = torch.randn(len(y), 2, generator=gen)
    for step in reversed(range(T)):
        t = torch.full((len(y),), step)
        plain, cond = model(x, t, torch.full_like(y, NULL)), model(x, t, y)
        eps = plain + guidance * (cond - plain)
        x = (x - BETAS[step] / (1 - ALPHA_BAR[step]).sqrt() * eps) / (1 - BETAS[step]).sqrt()
        if step > 0:
            x = x + BETAS[step].sqrt() * torch.randn(x.shape, generator=gen)
    return x


def main():
    torch.set_num_threads(1)
    torch.manual_seed(31)
    gen = torch.Generator().manual_seed(9)
    x, y = moons(4000, gen)
    mean, std = x.mean(0), x.std(0)
    xv, yv = moons(1000, gen)
    t_fixed, eps_fixed = torch.randint(T, (1000,), generator=gen), torch.randn(1000, 2, generator=gen)
    valid = ((xv - mean) / std, yv, t_fixed, eps_fixed)
    stream = batches((x - mean) / std, y)

    first = build()
    train(first, stream, 0, STEPS // 2, valid)
    file = io.BytesIO()
    torch.save({name: part.state_dict() for name, part in first.items()}, file)
    file.seek(0)

    second = build()
    for name, state in torch.load(file).items():
        second[name].load_state_dict(state)
    train(second, stream, STEPS // 2, STEPS, valid)
    drawn = sample(second["ema"], torch.arange(400) % 2) * std + mean
    print("nearest real point, mean distance:", round(torch.cdist(drawn, x).min(1).values.mean().item(), 4))


if __name__ == "__main__":
    main()
