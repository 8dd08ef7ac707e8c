# kind: numbers
# expect: nothing
# like: symmetric-weights
# why: the output layer and the last layer of each residual branch begin at zero on purpose, so that the
#   network begins as the zero function; the layers before them are random and break the symmetry.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(1234)

T = 100


def rings(n, generator):
    which = torch.randint(0, 2, (n,), generator=generator).float()
    angle = torch.rand(n, generator=generator) * 2 * math.pi
    radius = 2.0 + 3.0 * which + 0.12 * torch.randn(n, generator=generator)
    return torch.stack([radius * angle.cos() + 1.0, radius * angle.sin() - 2.0], dim=1)


def cosine_alpha_bar(steps, s=0.008):
    u = torch.arange(steps + 1) / steps
    f = torch.cos((u + s) / (1 + s) * math.pi / 2) ** 2
    beta = (1 - f[1:] / f[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - beta, dim=0)


alpha_bar = cosine_alpha_bar(T)


def embed_time(t, width):
    freq = torch.exp(-math.log(200.0) * torch.arange(width // 2) / (width // 2))
    angle = t.float()[:, None] * freq
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class Residual(nn.Module):
    def __init__(self, width, t_width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width)
        self.time = nn.Linear(t_width, width)
        self.fc2 = nn.Linear(width, width)
        nn.init.zeros_(self.fc2.weight)
        nn.init.zeros_(self.fc2.bias)

    def forward(self, h, t):
        return h + self.fc2(F.silu(self.fc1(self.norm(h)) + self.time(t)))


class Denoiser(nn.Module):
    def __init__(self, width=96, t_width=32, depth=3):
        super().__init__()
        self.t_width = t_width
        self.lift = nn.Linear(2, width)
        self.blocks = nn.ModuleList([Residual(width, t_width) for _ in range(depth)])
        self.out = nn.Linear(width, 2)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, x, t):
        te = embed_time(t, self.t_width)
        h = self.lift(x)
        for b in self.blocks:
            h = b(h, te)
        return self.out(h)


def noised(x0, t, eps):
    a = alpha_bar[t][:, None]
    return a.sqrt() * x0 + (1 - a).sqrt() * eps


source = torch.Generator().manual_seed(99)
data = rings(5000, source)
train, held = data[:4000], data[4000:]
centre, spread = train.mean(0), train.std(0)
train, held = (train - centre) / spread, (held - centre) / spread
# held-out times and noise are drawn once, so that epochs can be compared
held_t = torch.randint(0, T, (len(held),), generator=source)
held_eps = torch.randn(held.shape, generator=source)
held_x = noised(held, held_t, held_eps)

net = Denoiser()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
for epoch in range(10):
    net.train()
    total = 0.0
    for idx in torch.randperm(len(train)).split(100):
        x0 = train[idx]
        t = torch.randint(0, T, (len(idx),))
        eps = torch.randn_like(x0)
        loss = (net(noised(x0, t, eps), t) - eps).square().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        total += loss.item() * len(idx)
    net.eval()
    with torch.no_grad():
        held_loss = (net(held_x, held_t) - held_eps).square().mean().item()
    print(f"epoch {epoch} train {total / len(train):.4f} held {held_loss:.4f}")
