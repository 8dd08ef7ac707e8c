import torch, torch.nn as nn, torch.nn.functional as F, copy

torch.manual_seed(0)


def mk():
    return nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))


s, t = mk(), mk()
for p in t.parameters():
    p.detach_()
X = torch.randn(320, 8)
Y = (X[:, 0] > 0).long()
Y[64:] = -1
o = torch.optim.SGD(s.parameters(), 0.05, momentum=0.9, nesterov=True)
gs = 0
Xv = torch.randn(64, 8)
Yv = (Xv[:, 0] > 0).long()
for e in range(5):
    s.train()
    t.train()
    for i in torch.randperm(320).split(32):
        x, y = X[i], Y[i]
        ys = s(x + 0.1 * torch.randn_like(x))
        yt = t(x + 0.1 * torch.randn_like(x)).detach()
        n = max(1, (y >= 0).sum().item())
        l = F.cross_entropy(ys, y, ignore_index=-1, reduction="sum") / n + F.mse_loss(ys.softmax(1), yt.softmax(1))
        o.zero_grad()
        l.backward()
        o.step()
        gs += 1
        a = min(1 - 1 / gs, 0.99)
        for pt, ps in zip(t.parameters(), s.parameters()):
            pt.data.mul_(a).add_(ps.data, alpha=1 - a)
    for m in (s, t):
        m.eval()
        with torch.no_grad():
            print(e, (m(Xv).argmax(1) == Yv).float().mean().item())
