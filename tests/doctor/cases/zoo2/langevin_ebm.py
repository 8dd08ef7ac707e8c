import torch, torch.nn as nn

torch.manual_seed(0)
E = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 1))
o = torch.optim.Adam(E.parameters(), 1e-3)
buf = torch.randn(256, 2)


def langevin(x, n=10):
    x = x.clone().detach().requires_grad_(True)
    for p in E.parameters():
        p.requires_grad = False
    for _ in range(n):
        g = torch.autograd.grad(E(x).sum(), x)[0]
        x.data += -0.1 * g + 0.02 * torch.randn_like(x)
    for p in E.parameters():
        p.requires_grad = True
    return x.detach()


for i in range(60):
    idx = torch.randint(0, 256, (64,))
    f = langevin(buf[idx])
    buf[idx] = f
    r = torch.randn(64, 2) * 0.5 + 1
    a, b = E(r), E(f)
    l = (a - b).mean() + 0.1 * (a**2 + b**2).mean()
    o.zero_grad()
    l.backward()
    o.step()
print(l.item())
