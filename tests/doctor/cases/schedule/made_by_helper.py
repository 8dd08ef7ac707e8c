# made anew for each step by a helper, after a first one for the printout
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(5, 2)


def adam():
    return torch.optim.Adam(net.parameters(), 1e-2)


print(adam())
for i in range(40):
    x = torch.randn(16, 5)
    y = (x[:, 0] > 0).long()
    opt = adam()
    l = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    l.backward()
    opt.step()
