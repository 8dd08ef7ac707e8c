"""Two generators and two critics with one joint optimizer for the generators."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 16), nn.LeakyReLU(0.2), nn.Linear(16, o))


torch.manual_seed(0)
G_ab, G_ba, D_a, D_b = mlp(2, 2), mlp(2, 2), mlp(2, 1), mlp(2, 1)
opt_g = torch.optim.Adam(itertools.chain(G_ab.parameters(), G_ba.parameters()), lr=1e-3)
opt_da = torch.optim.Adam(D_a.parameters(), lr=1e-3)
opt_db = torch.optim.Adam(D_b.parameters(), lr=1e-3)

for step in range(32):
    a, b = torch.randn(16, 2), torch.randn(16, 2) * 0.2 + 2
    opt_g.zero_grad()
    fake_b, fake_a = G_ab(a), G_ba(b)
    adv = F.mse_loss(D_b(fake_b), torch.ones(16, 1)) + F.mse_loss(D_a(fake_a), torch.ones(16, 1))
    cyc = F.l1_loss(G_ba(fake_b), a) + F.l1_loss(G_ab(fake_a), b)
    (adv + 5 * cyc).backward()
    opt_g.step()
    for opt, critic, real, fake in ((opt_da, D_a, a, fake_a), (opt_db, D_b, b, fake_b)):
        opt.zero_grad()
        loss = F.mse_loss(critic(real), torch.ones(16, 1)) + F.mse_loss(critic(fake.detach()), torch.zeros(16, 1))
        (0.5 * loss).backward()
        opt.step()
print("cycle", cyc.item())
