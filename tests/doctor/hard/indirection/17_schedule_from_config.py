# kind: behind indirection
# expect: lambda-absolute-lr
# also: vanishing-updates
# why: the closure interpolates between learning rates and LambdaLR multiplies them with the optimizer's own 3e-3, so the
#      rate that acts is about 9e-6 and the model hardly learns.
"""Autoencoder for sensor frames; the schedule is described in a configuration dictionary."""
import argparse
import math
import torch
from torch import nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

CONFIG = {
    "optimizer": {"lr": 3e-3, "weight_decay": 1e-4},
    "schedule": {"kind": "warm_cosine", "start": 3e-4, "peak": 3e-3, "end": 3e-4, "warm": 100},
    "model": {"widths": [40, 64, 32, 6]},
}


def warm_cosine(total, start, peak, end, warm):
    def at(step):
        if step < warm:
            return start + (peak - start) * step / warm
        phase = min(1.0, (step - warm) / (total - warm))
        return end + 0.5 * (peak - end) * (1 + math.cos(math.pi * phase))
    return at


SCHEDULES = {"warm_cosine": warm_cosine}


def build_schedule(opt, total, kind, **rest):
    return LambdaLR(opt, SCHEDULES[kind](total, **rest))


def build_model(widths):
    chain = lambda ws: [m for a, b in zip(ws, ws[1:]) for m in (nn.Linear(a, b), nn.SiLU())][:-1]
    return nn.Sequential(nn.Sequential(*chain(widths)), nn.Sequential(*chain(widths[::-1])))


def frames(n, g, basis):
    z = torch.randn(n, basis.shape[0], generator=g)
    x = torch.tanh(z) @ basis + 0.05 * torch.randn(n, basis.shape[1], generator=g)
    return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=16)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    torch.manual_seed(33)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(330)
    basis = torch.randn(5, 40, generator=g)
    x, xv = frames(4096, g, basis), frames(512, g, basis)
    mu, sd = x.mean(0), x.std(0)
    x, xv = (x - mu) / sd, (xv - mu) / sd
    model = build_model(**CONFIG["model"])
    opt = torch.optim.AdamW(model.parameters(), **CONFIG["optimizer"])
    sched = build_schedule(opt, args.epochs * len(x) // args.batch, **CONFIG["schedule"])
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            opt.zero_grad()
            loss = F.mse_loss(model(x[idx]), x[idx])
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = F.mse_loss(model(xv), xv).item()
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {v:.4f}")


if __name__ == "__main__":
    main()
