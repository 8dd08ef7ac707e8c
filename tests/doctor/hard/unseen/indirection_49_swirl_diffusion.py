# kind: behind indirection
# expect: dead-parameter
# why: The memory-saving Swish is a custom autograd Function whose backward returns None for the trainable slope `beta`,
#      so every beta in the optimizer stays at its first value.
import argparse
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, beta):
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx, grad):
        x, beta = ctx.saved_tensors
        s = torch.sigmoid(beta * x)
        return grad * (s + x * beta * s * (1 - s)), None


class Swish(nn.Module):
    """Swish with a slope of its own for each channel; keeps only the input for backward."""

    def __init__(self, channels):
        super().__init__()
        self.beta = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return _Swish.apply(x, self.beta)


class Denoiser(nn.Module):
    def __init__(self, width=96, freqs=8):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(freqs) * math.pi / 2)
        self.time = nn.Linear(2 * freqs, width)
        self.inp = nn.Linear(2, width)
        self.act0 = Swish(width)
        self.mid = nn.ModuleList(nn.Sequential(nn.Linear(width, width), Swish(width)) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        arg = t[:, None] * self.freq
        h = self.act0(self.inp(x) + self.time(torch.cat([arg.sin(), arg.cos()], 1)))
        for layer in self.mid:
            h = h + layer(h)
        return self.out(h)


class Process:
    def __init__(self, steps):
        beta = torch.linspace(1e-3, 0.12, steps)
        self.steps, self.alpha = steps, 1 - beta
        self.bar = self.alpha.cumprod(0)

    def corrupt(self, x, k, noise):
        b = self.bar[k][:, None]
        return b.sqrt() * x + (1 - b).sqrt() * noise

    def loss(self, net, x, g):
        k = torch.randint(0, self.steps, (len(x),), generator=g)
        noise = torch.randn(x.shape, generator=g)
        return nn.functional.mse_loss(net(self.corrupt(x, k, noise), k / self.steps), noise)


def swirl(n, g):
    r = torch.rand(n, generator=g) * 2.5 + 0.5
    x = torch.stack([r * torch.cos(3 * r), r * torch.sin(3 * r)], 1) + 0.05 * torch.randn(n, 2, generator=g)
    return x


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--batch", type=int, default=128)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--seed", type=int, default=4)
    a = ap.parse_args(argv)
    torch.manual_seed(a.seed)
    g = torch.Generator().manual_seed(a.seed + 1)
    data, held = swirl(3072, g), swirl(768, g)
    mean, std = data.mean(0), data.std(0)
    data, held = (data - mean) / std, (held - mean) / std
    net, proc = Denoiser(), Process(a.steps)
    opt = torch.optim.Adam(net.parameters(), lr=a.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.92)
    for epoch in range(a.epochs):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(data), generator=g).split(a.batch):
            opt.zero_grad()
            loss = proc.loss(net, data[idx], g)
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        sched.step()
        net.eval()
        with torch.no_grad():
            v = proc.loss(net, held, torch.Generator().manual_seed(0)).item()
        print(f"epoch {epoch:2d} train {total / len(data):.4f} valid {v:.4f}")


if __name__ == "__main__":
    main()
