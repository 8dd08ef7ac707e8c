import torch
from torch import nn

torch.manual_seed(0)


def squash(z):
    return 1 / (1 + torch.exp(-z))


net = nn.Linear(6, 1)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for i in range(40):
    x = torch.randn(32, 6)
    y = (x[:, :1] > 0).float()
    p = squash(net(x))
    l = nn.functional.binary_cross_entropy_with_logits(p, y)
    opt.zero_grad()
    l.backward()
    opt.step()
