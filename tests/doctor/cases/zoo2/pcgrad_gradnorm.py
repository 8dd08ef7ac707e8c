import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
t = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
hs = nn.ModuleList([nn.Linear(32, 1) for _ in range(3)])
ps = [*t.parameters(), *hs.parameters()]
o = torch.optim.Adam(ps, 1e-3)
for i in range(60):
    x = torch.randn(32, 8)
    z = t(x)
    ls = [F.mse_loss(h(z), x[:, k : k + 1]) for k, h in enumerate(hs)]
    gs = []
    for l in ls:
        o.zero_grad()
        l.backward(retain_graph=True)
        gs.append([p.grad.clone() if p.grad is not None else torch.zeros_like(p) for p in ps])
    fl = [torch.cat([g.flatten() for g in G]) for G in gs]
    out = [f.clone() for f in fl]
    for a in range(3):
        for b in range(3):
            d = out[a] @ fl[b]
            if a != b and d < 0:
                out[a] -= d / fl[b].norm() ** 2 * fl[b]
    tot = sum(out)
    o.zero_grad()
    k = 0
    for p in ps:
        p.grad = tot[k : k + p.numel()].view_as(p).clone()
        k += p.numel()
    o.step()
print([l.item() for l in ls])
