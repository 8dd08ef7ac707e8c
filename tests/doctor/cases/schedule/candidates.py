# candidates that are looked at and never stepped, then one that trains
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 5)
y = (x[:, 0] > 0).long()
net = nn.Linear(5, 2)
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
for lr in (1e-1, 1e-2, 1e-3):
    print(torch.optim.Adam(net.parameters(), lr).defaults["lr"])
opt = torch.optim.Adam(net.parameters(), 1e-2)
for e in range(4):
    for a, b in loader:
        l = nn.functional.cross_entropy(net(a), b)
        opt.zero_grad()
        l.backward()
        opt.step()
