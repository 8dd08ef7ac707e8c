# kind: several losses and optimizers
# expect: averaged-batchnorm-stale
# why: The averaged generator gets the averaged parameters but never the BatchNorm buffers, so it is evaluated
#      with the statistics of the first second (mean 0, variance 1).
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)

LENGTH, LATENT = 48, 12


def heartbeats(n, generator):
    t = torch.linspace(0, 1, LENGTH)
    r = lambda lo, hi: lo + (hi - lo) * torch.rand(n, 1, generator=generator)
    bump = lambda centre, width, height: height * torch.exp(-((t - centre) / width) ** 2)
    where = r(0.45, 0.55)
    beat = bump(where - 0.2, 0.04, r(0.1, 0.25)) + bump(where, 0.02, r(0.9, 1.3)) - bump(where + 0.05, 0.02, r(0.2, 0.4))
    beat = beat + bump(where + 0.28, 0.06, r(0.2, 0.45))
    return beat + 0.02 * torch.randn(n, LENGTH, generator=generator)


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.start = nn.Linear(LATENT, width * (LENGTH // 4))
        self.width = width
        self.body = nn.Sequential(
            nn.BatchNorm1d(width), nn.ReLU(),
            nn.ConvTranspose1d(width, width, 4, stride=2, padding=1, bias=False), nn.BatchNorm1d(width), nn.ReLU(),
            nn.ConvTranspose1d(width, width // 2, 4, stride=2, padding=1, bias=False), nn.BatchNorm1d(width // 2), nn.ReLU(),
            nn.Conv1d(width // 2, 1, 5, padding=2),
        )

    def forward(self, z):
        return self.body(self.start(z).view(len(z), self.width, -1)).squeeze(1)


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * width * LENGTH // 4, 1),
        )

    def forward(self, x):
        return self.net(x.unsqueeze(1)).squeeze(1)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for slow, fast in zip(self.model.parameters(), model.parameters()):
            slow.mul_(self.decay).add_(fast, alpha=1 - self.decay)


@torch.no_grad()
def energy_distance(model, real, z):
    fake = model(z)
    cross, rr, ff = torch.cdist(real, fake).mean(), torch.cdist(real, real).mean(), torch.cdist(fake, fake).mean()
    return (2 * cross - rr - ff).item()


def train(epochs=8, batch=64):
    torch.manual_seed(12)
    data_rng = torch.Generator().manual_seed(13)
    real, held_out = heartbeats(2560, data_rng), heartbeats(256, data_rng)
    mean, std = real.mean(), real.std()
    real, held_out = (real - mean) / std, (held_out - mean) / std
    fixed_z = torch.randn(256, LATENT, generator=data_rng)

    g, d = Generator(), Discriminator()
    ema = Ema(g, decay=0.98)
    opt_g = torch.optim.Adam(g.parameters(), lr=1e-3, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(d.parameters(), lr=1e-3, betas=(0.5, 0.999))
    for epoch in range(epochs):
        g.train()
        d.train()
        mean_d = mean_g = 0.0
        parts = real[torch.randperm(len(real))].split(batch)
        for x in parts:
            fake = g(torch.randn(len(x), LATENT))
            loss_d = F.relu(1 - d(x)).mean() + F.relu(1 + d(fake.detach())).mean()
            opt_d.zero_grad()
            loss_d.backward()
            opt_d.step()

            loss_g = -d(fake).mean()
            opt_g.zero_grad()
            loss_g.backward()
            opt_g.step()
            ema.update(g)
            mean_d += loss_d.item() / len(parts)
            mean_g += loss_g.item() / len(parts)
        score = energy_distance(ema.model, held_out, fixed_z)
        print(f"epoch {epoch}: D {mean_d:.3f} G {mean_g:.3f} energy distance of the average {score:.3f}")


train()
