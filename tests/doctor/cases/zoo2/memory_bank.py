import torch, torch.nn as nn, torch.nn.functional as F, random, numpy as np
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
random.seed(0)
np.random.seed(0)
X = torch.randn(320, 8)
Y = (X[:, 0] > 0).long()
GEN = torch.Generator().manual_seed(3)
RNG = np.random.default_rng(0)
PR = random.Random(1)


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(8, 16)
        s.b = nn.Linear(16, 2)
        s.register_buffer("bank", torch.zeros(10, 16))
        s.ptr = 0
        s.gen = np.random.default_rng(1)
        s.ema = None

    def forward(s, x):
        h = torch.relu(s.a(x))
        h = (
            h
            + 0.1 * torch.randn(h.shape, generator=GEN)
            + float(RNG.normal()) * 0.01
            + PR.random() * 0.01
            + s.gen.normal() * 0.01
        )
        with torch.no_grad():
            s.bank[s.ptr] = h.mean(0)
            s.bank.data.mul_(0.99)
            s.ptr = (s.ptr + 1) % 10
            s.ema = h.mean() if s.ema is None else s.ema * 0.9 + h.mean() * 0.1
        return s.b(h) + s.bank.mean()


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
        m.ptr,
        m.ema.item(),
        RNG.normal(),
        PR.random(),
        torch.rand(1, generator=GEN).item(),
        random.random(),
        np.random.rand(),
    )
