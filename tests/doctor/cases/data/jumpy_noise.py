"""Each sample draws as many random numbers as its content says, also when it is evaluated."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Jumpy(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(6, 16)
        s.b = nn.Linear(16, 3)

    def forward(s, x):
        h = torch.relu(s.a(x))
        rows = []
        for row, first in zip(h, x[:, 0]):
            k = int(first.abs() * 3) + 1
            rows.append(row + 0.3 * torch.randn(k, 16).mean(0))
        return s.b(torch.stack(rows))


x = torch.randn(96, 6)
y = (x[:, 0] > 0).long()
m = Jumpy()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(4):
    for a, b in DataLoader(TensorDataset(x, y), 16, shuffle=True):
        l = nn.functional.cross_entropy(m(a), b)
        o.zero_grad()
        l.backward()
        o.step()
