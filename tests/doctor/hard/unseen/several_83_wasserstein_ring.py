# kind: several losses
# expect: nothing
# why: A WGAN as published: the critic is zeroed right before its own backward (the generator's pass leaves gradients in it that are dropped on purpose), its weights are clamped in place, and losses may be negative.
"""Wasserstein GAN on a two-dimensional ring, critic with weight clamping."""
import math

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(81)

LATENT, BATCH, CLAMP, N_CRITIC = 8, 128, 0.1, 4


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LATENT, 64), nn.ReLU(),
                                 nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2),
                                 nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def clamp_(self, limit):
        for p in self.parameters():
            p.clamp_(-limit, limit)


def ring(n, g):
    angle = 2 * math.pi * torch.rand(n, generator=g)
    radius = 1.0 + 0.05 * torch.randn(n, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1)


def noise(n, g):
    return torch.randn(n, LATENT, generator=g)


@torch.no_grad()
def radius_error(gen, g, n=1024):
    gen.eval()
    error = (gen(noise(n, g)).norm(dim=1) - 1.0).abs().mean().item()
    gen.train()
    return error


def critic_step(gen, critic, opt, g):
    real = ring(BATCH, g)
    with torch.no_grad():
        fake = gen(noise(BATCH, g))
    opt.zero_grad()
    loss = critic(fake).mean() - critic(real).mean()
    loss.backward()
    opt.step()
    critic.clamp_(CLAMP)
    return loss.item()


def generator_step(gen, critic, opt, g):
    opt.zero_grad()
    loss = -critic(gen(noise(BATCH, g))).mean()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    g = torch.Generator().manual_seed(23)
    gen, critic = Generator(), Critic()
    opt_g = torch.optim.RMSprop(gen.parameters(), lr=2e-3)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
    for step in range(320):
        for _ in range(N_CRITIC):
            c_loss = critic_step(gen, critic, opt_c, g)
        g_loss = generator_step(gen, critic, opt_g, g)
        if (step + 1) % 80 == 0:
            print(f"step {step + 1} critic {c_loss:.4f} generator {g_loss:.4f} "
                  f"radius error {radius_error(gen, g):.3f}")


if __name__ == "__main__":
    main()
