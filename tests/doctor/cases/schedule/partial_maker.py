import torch, functools
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 5)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
make = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
opts = {"warm": make(net.parameters()), "main": make(net.parameters())}
for e in range(5):
    opts["main"] = make(net.parameters())
    for a, b in loader:
        l = nn.functional.cross_entropy(net(a), b)
        opts["main"].zero_grad()
        l.backward()
        opts["main"].step()
