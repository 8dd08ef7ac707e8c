import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 5)
y = (x[:, 0] > 0).long()
tr = DataLoader(TensorDataset(x[:240], y[:240]), batch_size=24, shuffle=True)
va = DataLoader(TensorDataset(x[240:], y[240:]), batch_size=20)
m = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
o = torch.optim.Adam(m.parameters(), lr=1e-2)
c = nn.CrossEntropyLoss()
for ep in range(3):
    for a, b in tr:
        o.zero_grad()
        c(m(a), b).backward()
        o.step()
    n = 0
    for a, b in va:
        out = m(a)
        n += (out.max(1)[1] == b).sum().item()
    print(n / 60)
