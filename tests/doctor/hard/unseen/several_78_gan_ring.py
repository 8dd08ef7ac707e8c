# kind: several losses
# expect: foreign-gradients
# also: missing-zero-grad
# why: each optimizer clears right after its own step, but the generator's backward then fills the discriminator's gradients, and nothing clears them before the next discriminator backward, so D's step mixes in gradients that make D worse.
"""GAN on a ring of Gaussians with separate optimizers and a feature-matching term."""
import math

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(4)

MODES, LATENT, BATCH = 8, 8, 128


def real_batch(n):
    k = torch.randint(MODES, (n,))
    angle = 2 * math.pi * k / MODES
    centers = torch.stack([angle.cos(), angle.sin()], 1)
    return centers + 0.05 * torch.randn(n, 2)


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2))
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        h = self.features(x)
        return self.score(h).squeeze(1), h


def generator(width=64):
    return nn.Sequential(nn.Linear(LATENT, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))


def apply_update(loss, optimizer):
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def disc_loss(D, real, fake):
    r, _ = D(real)
    f, _ = D(fake.detach())
    return F.softplus(-r).mean() + F.softplus(f).mean()


def gen_loss(D, real, fake, match=0.1):
    f, h_fake = D(fake)
    with torch.no_grad():
        _, h_real = D(real)
    return F.softplus(-f).mean() + match * (h_fake.mean(0) - h_real.mean(0)).square().sum()


@torch.no_grad()
def quality(G):
    x = G(torch.randn(2000, LATENT))
    angle = 2 * math.pi * torch.arange(MODES) / MODES
    d, near = torch.cdist(x, torch.stack([angle.cos(), angle.sin()], 1)).min(1)
    good = d < 0.2
    return good.float().mean().item(), near[good].unique().numel()


def main():
    G, D = generator(), Discriminator()
    opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.99))
    for step in range(1, 1001):
        real = real_batch(BATCH)
        fake = G(torch.randn(BATCH, LATENT))
        d = apply_update(disc_loss(D, real, fake), opt_d)
        g = apply_update(gen_loss(D, real, fake), opt_g)
        if step % 250 == 0:
            share, modes = quality(G)
            print(f"step {step} D {d:.3f} G {g:.3f} near a mode {share:.2f} modes {modes}/{MODES}")


if __name__ == "__main__":
    main()
