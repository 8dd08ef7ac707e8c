import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(320, 1, 8, 8)
Y = (X.mean((1, 2, 3)) > 0).long()
m = nn.Sequential(nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
m(X[:2])
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(2):
    for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
        l = F.cross_entropy(m(x), y)
        o.zero_grad()
        l.backward()
        o.step()
    print(l.item())
