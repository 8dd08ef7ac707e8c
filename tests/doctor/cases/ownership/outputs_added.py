"""A small regressor that is given more outputs later; the new head joins the optimizer."""

import torch
from torch import nn

torch.manual_seed(0)
parts = nn.ModuleDict({"body": nn.Sequential(nn.Linear(8, 32), nn.ReLU()), "head": nn.Linear(32, 2)})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        return self.parts["head"](self.parts["body"](x))


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
w = torch.randn(8, 4)


def run(n, k):
    for _ in range(n):
        x = torch.randn(32, 8)
        y = x @ w[:, :k]
        loss = (net(x) - y).pow(2).mean()
        net.zero_grad()
        loss.backward()
        opt.step()


run(120, 2)
net.parts["head"] = nn.Linear(32, 4)
opt.add_param_group({"params": net.parts["head"].parameters()})
run(80, 4)
