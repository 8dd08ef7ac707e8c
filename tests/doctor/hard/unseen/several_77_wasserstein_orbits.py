# kind: several losses
# expect: nothing
# why: weights of the critic are clamped in place through .data, the generator's backward leaves gradients in the critic, fakes are detached in one part and not in the other, and samples are drawn in train mode under no_grad; all standard WGAN, and every gradient is cleared before its own backward.
"""WGAN (weight clipping) on orbit fragments, with a critic warm-up."""
import math
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(50)
LATENT, POINTS = 8, 12


def orbits(n):
    radius = 0.6 + 0.4 * torch.rand(n, 1)
    phase = 2 * math.pi * torch.rand(n, 1)
    t = torch.linspace(0, math.pi, POINTS)
    xy = torch.stack([radius * torch.cos(t + phase), 0.7 * radius * torch.sin(t + phase)], -1)
    return (xy + 0.01 * torch.randn_like(xy)).flatten(1)


class Generator(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(LATENT, width), nn.BatchNorm1d(width), nn.ReLU(),
                                 nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(),
                                 nn.Linear(width, 2 * POINTS), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * POINTS, width), nn.LeakyReLU(0.2),
                                 nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)

    def clamp(self, c):
        for p in self.parameters():
            p.data.clamp_(-c, c)


def critic_step(critic, gen, opt, size):
    real = orbits(size)
    fake = gen(torch.randn(size, LATENT)).detach()
    opt.zero_grad()
    loss = critic(fake).mean() - critic(real).mean()
    loss.backward()
    opt.step()
    critic.clamp(0.05)
    return -loss.item()


def generator_step(critic, gen, opt, size):
    opt.zero_grad()
    loss = -critic(gen(torch.randn(size, LATENT))).mean()
    loss.backward()
    opt.step()
    return loss.item()


@torch.no_grad()
def flatness(gen):
    """How far generated fragments are from an ellipse with the right axis ratio."""
    xy = gen(torch.randn(256, LATENT)).view(-1, POINTS, 2)
    r = (xy[..., 0] ** 2 + (xy[..., 1] / 0.7) ** 2).sqrt()
    return (r.std(1) / r.mean(1)).mean().item()


def main():
    gen, critic = Generator(), Critic()
    opt_g = torch.optim.RMSprop(gen.parameters(), lr=5e-4)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    for _ in range(30):
        critic_step(critic, gen, opt_c, 96)
    print(f"shape error at the start {flatness(gen):.3f}")
    for it in range(1, 241):
        for _ in range(3):
            gap = critic_step(critic, gen, opt_c, 96)
        g_loss = generator_step(critic, gen, opt_g, 96)
        if it % 60 == 0:
            print(f"iter {it} gap {gap:.4f} generator {g_loss:.4f} shape error {flatness(gen):.3f}")


main()
