import itertools

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
opt_g = torch.optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.9))
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3, betas=(0.5, 0.9))


def real_batches(n=32):
    while True:
        angle = torch.rand(n) * 6.283
        yield torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(n, 2)


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag


for step, real in enumerate(itertools.islice(real_batches(), 40)):
    z = torch.randn(len(real), 4)
    fake = G(z)

    set_requires_grad(D, True)
    opt_d.zero_grad()
    pred_real, pred_fake = D(real), D(fake.detach())
    loss_d = F.softplus(-pred_real).mean() + F.softplus(pred_fake).mean()
    loss_d.backward()
    opt_d.step()

    set_requires_grad(D, False)
    opt_g.zero_grad()
    loss_g = F.softplus(-D(fake)).mean()
    loss_g.backward()
    opt_g.step()
    if step % 10 == 0:
        print(step, loss_d.item(), loss_g.item())
