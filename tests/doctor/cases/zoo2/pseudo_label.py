import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(400, 8)
Y = (X[:, 0] > 0).long()
lab = DataLoader(TensorDataset(X[:64], Y[:64]), 16, shuffle=True)
un = DataLoader(TensorDataset(X[64:320]), 64, shuffle=True)
te = DataLoader(TensorDataset(X[320:], Y[320:]), 40)
m = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
o = torch.optim.SGD(m.parameters(), 0.05, momentum=0.9, nesterov=True)


def cyc(d):
    while True:
        yield from d


a, b = cyc(lab), cyc(un)
for it in range(100):
    m.train()
    x, y = next(a)
    (u,) = next(b)
    w, s = u + 0.02 * torch.randn_like(u), u + 0.2 * torch.randn_like(u)
    lg = m(torch.cat([x, w, s]))
    lx, (lw, ls) = lg[:16], lg[16:].chunk(2)
    p, t = lw.detach().softmax(-1).max(-1)
    k = p.ge(0.8).float()
    l = F.cross_entropy(lx, y) + (F.cross_entropy(ls, t, reduction="none") * k).mean()
    o.zero_grad()
    l.backward()
    o.step()
    if it % 25 == 24:
        m.eval()
        with torch.no_grad():
            print(it, sum((m(x).argmax(1) == y).sum().item() for x, y in te) / 80)
