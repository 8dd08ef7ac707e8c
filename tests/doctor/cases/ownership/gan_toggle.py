"""A GAN that switches the gradients of the idle network off."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag


class GAN:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.d = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=1e-3)
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=1e-3)

    def step_d(self, real):
        set_requires_grad(self.g, False)
        set_requires_grad(self.d, True)
        fake = self.g(torch.randn(len(real), 3))
        loss = F.softplus(-self.d(real)).mean() + F.softplus(self.d(fake)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def step_g(self, n):
        set_requires_grad(self.d, True)
        fake = self.g(torch.randn(n, 3))
        loss = F.softplus(-self.d(fake)).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()


torch.manual_seed(0)
gan = GAN()
for step in range(40):
    real = torch.randn(32, 2) * 0.2 + 1
    d, g = gan.step_d(real), gan.step_g(32)
    if step % 10 == 0:
        print(step, d, g)
