# kind: in a second phase
# expect: nothing
# like: leaf-written-in-place
# why: from step 200 on an average of the weights is kept; for validation and sampling it is written into the live
#   network under no_grad and the live weights are put back exactly before the next step.
import contextlib
import math

import torch
from torch import nn


class Ema:
    def __init__(self, module, decay):
        self.module, self.decay = module, decay
        self.mean = [p.detach().clone() for p in module.parameters()]

    @torch.no_grad()
    def update(self):
        for m, p in zip(self.mean, self.module.parameters()):
            m.lerp_(p, 1 - self.decay)

    @contextlib.contextmanager
    def applied(self):
        live = [p.detach().clone() for p in self.module.parameters()]
        self._write(self.mean)
        try:
            yield self.module
        finally:
            self._write(live)

    @torch.no_grad()
    def _write(self, values):
        for p, v in zip(self.module.parameters(), values):
            p.copy_(v)


class Denoiser(nn.Module):
    def __init__(self, width=128, freqs=8):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(freqs) * math.pi / 4)
        self.inp = nn.Linear(2 + 2 * freqs, width)
        self.mid = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU()) for _ in range(3))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t):
        angle = t[:, None] * self.freqs
        h = self.inp(torch.cat([x, angle.sin(), angle.cos()], 1))
        for block in self.mid:
            h = h + block(h)
        return self.out(h)


def moons(n, gen):
    side = torch.randint(2, (n,), generator=gen).float()
    a = math.pi * torch.rand(n, generator=gen)
    x = torch.where(side == 0, a.cos(), 1 - a.cos())
    y = torch.where(side == 0, a.sin(), 0.5 - a.sin())
    pts = torch.stack([x - 0.5, y - 0.25], 1) + 0.06 * torch.randn(n, 2, generator=gen)
    return pts / torch.tensor([0.87, 0.5])


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2)[:, None], torch.sin(t * math.pi / 2)[:, None]


def noise_loss(net, x0, t, eps):
    a, s = alpha_sigma(t)
    return nn.functional.mse_loss(net(a * x0 + s * eps, t), eps)


@torch.no_grad()
def sample(net, n, gen, steps=25):
    x = torch.randn(n, 2, generator=gen)
    grid = torch.linspace(0.98, 0.0, steps + 1)
    for now, nxt in zip(grid[:-1], grid[1:]):
        t, u = now.expand(n), nxt.expand(n)
        a, s = alpha_sigma(t)
        eps = net(x, t)
        x0 = ((x - s * eps) / a).clamp(-3, 3)
        a, s = alpha_sigma(u)
        x = a * x0 + s * eps
    return x


def main(total=600, ema_from=200, batch=256):
    torch.set_num_threads(1)
    torch.manual_seed(99)
    gen = torch.Generator().manual_seed(4)
    train, valid = moons(8192, gen), moons(1024, gen)
    vt, veps = 0.98 * torch.rand(1024, generator=gen), torch.randn(1024, 2, generator=gen)

    net, ema = Denoiser(), None
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)

    def validate():
        net.eval()
        with ema.applied() if ema else contextlib.nullcontext(), torch.no_grad():
            value = noise_loss(net, valid, vt, veps).item()
        net.train()
        return value

    net.train()
    for step in range(1, total + 1):
        x0 = train[torch.randint(len(train), (batch,))]
        loss = noise_loss(net, x0, 0.98 * torch.rand(batch), torch.randn(batch, 2))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == ema_from:
            ema = Ema(net, decay=0.98)
        elif ema:
            ema.update()
        if step % 50 == 0:
            print(f"step {step:3d}  train {loss.item():.4f}  valid {validate():.4f}  {'ema' if ema else 'live'}")

    net.eval()
    with ema.applied():
        pts = sample(net, 500, gen)
    print("sample spread", [round(v, 3) for v in pts.std(0).tolist()])


main()
