import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(320, 8)
Y = (X[:, 0] > 0).long()
FEATS = []
COUNT = {"n": 0}


class Meter:
    def __init__(s):
        s.n = 0
        s.h = []

    def update(s, v):
        s.n += 1
        s.h.append(v)


class Inner:
    def __init__(s):
        s.m = Meter()
        s.q = torch.zeros(4)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 16)
        s.b = nn.Linear(16, 2)
        s.meter = Meter()
        s.inner = Inner()
        s.calls = 0
        s.cache = {"k": []}

    def forward(s, x):
        h = torch.relu(s.a(x))
        s.calls += 1
        s.meter.update(h.mean().item())
        s.inner.m.update(1)
        s.inner.q[0] += 1
        s.cache["k"].append(1)
        FEATS.append(h.detach().mean().item())
        COUNT["n"] += 1
        return s.b(h)


m = M()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(3):
    for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
        l = F.cross_entropy(m(x), y)
        o.zero_grad()
        l.backward()
        o.step()
    print(
        l.item(),
        m.calls,
        m.meter.n,
        len(m.meter.h),
        m.inner.m.n,
        m.inner.q.tolist(),
        len(m.cache["k"]),
        len(FEATS),
        COUNT,
    )
