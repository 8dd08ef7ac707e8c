import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
X = torch.randn(320, 8)
Y = (X[:, 0] > 0).long()


class M(nn.Module):
    def __init__(s):
        super().__init__()
        s.n = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(8, 16), nn.ReLU(True), nn.Linear(16, 2))

    def forward(s, x):
        x.sub_(0.1).mul_(1.5)
        return s.n(x)


m = M()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(3):
    for x, y in DataLoader(TensorDataset(X, Y), 32, shuffle=True):
        l = F.cross_entropy(m(x), y)
        o.zero_grad()
        l.backward()
        o.step()
        s = x.sum().item()
    print(l.item(), s)
