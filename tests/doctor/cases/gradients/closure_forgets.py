import torch
from torch import nn
from functools import partial

torch.manual_seed(44)
net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.005)


def evaluate(x, y):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    return loss


for step in range(150):
    x = torch.randn(32, 5)
    value = opt.step(partial(evaluate, x, (x[:, 0] > 0).long()))
    if step % 30 == 0:
        print(step, value.item())
