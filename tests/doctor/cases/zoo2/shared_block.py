import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Albert(nn.Module):
    def __init__(s):
        super().__init__()
        b = nn.Linear(8, 8)
        s.bs = nn.ModuleList([b] * 3)
        s.alias = b
        s.o = nn.Linear(8, 2)
        s.o2 = nn.Linear(8, 2)
        s.o2.weight = s.o.weight

    def forward(s, x):
        for b in s.bs:
            x = torch.relu(b(x)) + x
        return s.o(x) + s.o2(x)


m = Albert()
o = torch.optim.Adam(m.parameters(), 1e-2)
X = torch.randn(320, 8)
for e in range(3):
    for x, y in DataLoader(TensorDataset(X, (X[:, 0] > 0).long()), 32, shuffle=True):
        o.zero_grad()
        l = F.cross_entropy(m(x), y)
        l.backward()
        o.step()
    print(l.item())
