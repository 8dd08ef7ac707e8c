# gradients computed by autograd.grad and put there by hand
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 2)
opt = torch.optim.Adam(net.parameters(), 1e-2)
other = nn.Linear(6, 2)
oo = torch.optim.Adam(other.parameters(), 1e-2)
for i in range(60):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    loss = nn.functional.cross_entropy(net(x), y)
    for p, g in zip(net.parameters(), torch.autograd.grad(loss, list(net.parameters()))):
        p.grad = g
    opt.step()
    oo.zero_grad()
    nn.functional.cross_entropy(other(x), y).backward()
    oo.step()
