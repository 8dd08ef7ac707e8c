import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(5)


class Gen(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 32)
        s.b = nn.Linear(32, 2)

    def forward(s, z):
        return s.b(F.leaky_relu(s.a(z), 0.2))


from torch.nn.utils.parametrizations import spectral_norm


class Dis(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = spectral_norm(nn.Linear(2, 32))
        s.b = spectral_norm(nn.Linear(32, 1))

    def forward(s, x):
        return s.b(F.leaky_relu(s.a(x), 0.2)).squeeze(-1)


g, d = Gen(), Dis()
import copy

g_ema = copy.deepcopy(g).eval().requires_grad_(False)
og, od = torch.optim.Adam(g.parameters(), 1e-3, (0.0, 0.99)), torch.optim.Adam(d.parameters(), 1e-3, (0.0, 0.99))


def rg(m, flag):
    for p in m.parameters():
        p.requires_grad_(flag)


for step in range(120):
    x = torch.randn(32, 2) + 2
    rg(g, False)
    rg(d, True)
    fake = g(torch.randn(32, 8))
    ld = F.relu(1 - d(x)).mean() + F.relu(1 + d(fake)).mean()
    d.zero_grad()
    ld.backward()
    od.step()
    if step % 16 == 0:
        x.requires_grad_(True)
        p = d(x)
        (gr,) = torch.autograd.grad(p.sum(), x, create_graph=True)
        r1 = gr.pow(2).sum(1).mean()
        d.zero_grad()
        (10 / 2 * r1 * 16 + 0 * p[0]).backward()
        od.step()
    rg(g, True)
    rg(d, False)
    lg = -d(g(torch.randn(32, 8))).mean()
    g.zero_grad()
    lg.backward()
    og.step()
    with torch.no_grad():
        for pe, p in zip(g_ema.parameters(), g.parameters()):
            pe.mul_(0.99).add_(p.data, alpha=0.01)
    if step % 40 == 0:
        with torch.no_grad():
            s = g_ema(torch.randn(16, 8)).mean(0)
        print(ld.item(), lg.item(), s.tolist())
