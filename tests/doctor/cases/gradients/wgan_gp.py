"""Wasserstein GAN with gradient penalty; real and fake go backward one after the other."""

import torch
from torch import autograd, nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
one = torch.tensor(1.0)


def penalty(real, fake):
    mix = torch.rand(len(real), 1)
    points = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grads,) = autograd.grad(critic(points).sum(), points, create_graph=True)
    return 10 * ((grads.norm(dim=1) - 1) ** 2).mean()


for iteration in range(16):
    for p in critic.parameters():
        p.requires_grad_(True)
    for _ in range(3):
        real = torch.randn(24, 2) * 0.3 + 1
        fake = generator(torch.randn(24, 4)).detach()
        critic.zero_grad()
        d_real = critic(real).mean()
        d_real.backward(-one)
        d_fake = critic(fake).mean()
        d_fake.backward(one)
        gp = penalty(real, fake)
        gp.backward()
        nn.utils.clip_grad_norm_(critic.parameters(), 5.0)
        opt_c.step()
    for p in critic.parameters():
        p.requires_grad_(False)
    generator.zero_grad()
    g = critic(generator(torch.randn(24, 4))).mean()
    g.backward(-one)
    opt_g.step()
    if iteration % 5 == 0:
        print(iteration, (d_real - d_fake).item(), gp.item())
