# warm-up with one optimizer, then another with a smaller rate: two stages
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(5, 2)


def run(opt, n):
    for i in range(n):
        x = torch.randn(16, 5)
        y = (x[:, 0] > 0).long()
        l = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        l.backward()
        opt.step()


torch.optim.Adam(net.parameters(), 1e-2)
run(torch.optim.Adam(net.parameters(), 1e-2), 30)
run(torch.optim.Adam(net.parameters(), 1e-3), 30)
