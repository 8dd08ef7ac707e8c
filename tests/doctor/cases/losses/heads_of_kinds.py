"""One criterion for heads with and without squashing; what is squashed gets the loss for it. Two losses through one stepper."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
heads = nn.ModuleDict(
    {
        "a": nn.Linear(32, 3),
        "b": nn.Sequential(nn.Linear(32, 5), nn.LogSoftmax(-1)),
        "c": nn.Sequential(nn.Linear(32, 1), nn.Sigmoid()),
    }
)
opt = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=3e-3)
side = nn.Linear(8, 1)
other = torch.optim.SGD(side.parameters(), lr=0.05)
X = torch.randn(1280, 8)
Y = {"a": X[:, :3].argmax(1), "b": X[:, :5].argmax(1), "c": (X[:, 0] > 0).float()}
LOSS = {"a": F.cross_entropy, "b": F.nll_loss, "c": lambda p, t: F.binary_cross_entropy(p[:, 0], t)}


def criterion(name, h, idx):
    return LOSS[name](heads[name](h), Y[name][idx])


def advance(o, loss):
    o.zero_grad()
    loss.backward()
    o.step()


for epoch in range(3):
    for idx in torch.randperm(1280).split(32):
        h = body(X[idx])
        advance(opt, sum(criterion(n, h, idx) for n in heads))
        pair = side(X[idx]) - side(X[idx]).T
        advance(other, F.softplus(-pair * (X[idx, :1] - X[idx, :1].T).sign()).mean())
