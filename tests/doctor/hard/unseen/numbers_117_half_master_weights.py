# kind: numbers
# expect: nothing
# why: Might be accused of fp16-without-scaler, non-finite, parameter-not-optimized, clip-before-unscale or update-below-precision: a dynamic loss scale is kept by hand, overflowing steps are skipped, and clipping and updates happen on unscaled float32 master weights.
"""Training a float16 net by hand: float32 master weights, dynamic loss scaling, steps with overflow left out."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def spirals(n, gen, arms=5):
    y = torch.randint(arms, (n,), generator=gen)
    r = torch.rand(n, generator=gen)
    angle = 4.0 * r + y * 2 * math.pi / arms + 0.12 * torch.randn(n, generator=gen)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1), y


class HalfNet(nn.Module):
    def __init__(self, width=64, classes=5):
        super().__init__()
        self.inp = nn.Linear(2, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        h = F.relu(self.inp(x.to(self.inp.weight.dtype)))
        for layer in self.hidden:
            h = h + F.relu(layer(h))
        return self.out(h).float()  # the loss is computed in float32


class LossScale:
    """Halve on overflow, double after a run of good steps."""

    def __init__(self, start=2.0**24, patience=120):
        self.value, self.good, self.patience, self.skipped = start, 0, patience, 0

    def update(self, finite):
        if not finite:
            self.value, self.good, self.skipped = self.value / 2, 0, self.skipped + 1
            return
        self.good += 1
        if self.good == self.patience:
            self.value, self.good = self.value * 2, 0


class MasterOptimizer:
    """AdamW on a float32 copy of the weights; the float16 net only gets the rounded result."""

    def __init__(self, net, lr, weight_decay, max_norm):
        self.net, self.max_norm = net, max_norm
        self.master = [p.detach().clone().float().requires_grad_(True) for p in net.parameters()]
        matrices = [m for m in self.master if m.ndim > 1]
        vectors = [m for m in self.master if m.ndim == 1]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        self.inner = torch.optim.AdamW(groups, lr=lr)

    def step(self, scale):
        for half, full in zip(self.net.parameters(), self.master):
            full.grad = half.grad.float() / scale.value
        finite = all(torch.isfinite(full.grad).all() for full in self.master)
        if finite:
            nn.utils.clip_grad_norm_(self.master, self.max_norm)
            self.inner.step()
            with torch.no_grad():
                for half, full in zip(self.net.parameters(), self.master):
                    half.copy_(full)
        scale.update(finite)
        return finite

    def zero_grad(self):
        self.net.zero_grad(set_to_none=True)
        self.inner.zero_grad(set_to_none=True)


def batches(x, y, size):
    while True:
        for index in torch.randperm(len(x)).split(size):
            yield x[index], y[index]


@torch.no_grad()
def evaluate(net, x, y):
    net.eval()
    logits = net(x)
    net.train()
    return F.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(90)
    (x, y), (xv, yv) = spirals(2000, gen), spirals(600, gen)
    mean, std = x.mean(0), x.std(0)
    x, xv = (x - mean) / std, (xv - mean) / std

    steps = 800
    net = HalfNet().half()
    optimizer = MasterOptimizer(net, lr=3e-3, weight_decay=1e-2, max_norm=1.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer.inner, T_max=steps, eta_min=3e-5)
    scale, taken, running = LossScale(), 0, None
    stream = batches(x, y, 100)
    while taken < steps:
        xb, yb = next(stream)
        loss = F.cross_entropy(net(xb), yb)
        optimizer.zero_grad()
        (loss * scale.value).backward()
        if not optimizer.step(scale):
            continue
        schedule.step()
        taken += 1
        running = loss.item() if running is None else 0.97 * running + 0.03 * loss.item()
        if taken % 160 == 0:
            held_out, accuracy = evaluate(net, xv, yv)
            print(f"step {taken}  loss {running:.4f}  valid {held_out:.4f}  accuracy {accuracy:.3f}  scale 2^{math.log2(scale.value):.0f}  skipped {scale.skipped}")


if __name__ == "__main__":
    main()
