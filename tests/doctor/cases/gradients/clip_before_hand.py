import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(6, 2)
for i in range(40):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    l = nn.functional.cross_entropy(net(x), y)
    net.zero_grad()
    l.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.1 * p.grad
