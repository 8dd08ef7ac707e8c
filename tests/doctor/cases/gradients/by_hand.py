"""Logistic regression and a small network with updates written out."""

import torch
from torch import nn

torch.manual_seed(0)
X = torch.randn(128, 5)
y = (X[:, 0] > X[:, 1]).float()

w = torch.zeros(5, requires_grad=True)
b = torch.zeros((), requires_grad=True)
for epoch in range(30):
    p = torch.sigmoid(X @ w + b)
    loss = -(y * torch.log(p + 1e-8) + (1 - y) * torch.log(1 - p + 1e-8)).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.5 * w.grad
        b -= 0.5 * b.grad
        w.grad.zero_()
        b.grad.zero_()
print("logistic", loss.item())

net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for epoch in range(30):
    rows = torch.randperm(128)[:32]
    loss = nn.functional.cross_entropy(net(X[rows]), y[rows].long())
    for p in net.parameters():
        p.grad = None
    loss.backward()
    optimizer.step()
print("network", loss.item())

net = nn.Linear(5, 2)
for epoch in range(30):
    rows = torch.randperm(128)[:32]
    loss = nn.functional.cross_entropy(net(X[rows]), y[rows].long())
    grads = torch.autograd.grad(loss, list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads):
            p.add_(g, alpha=-0.1)
print("linear", loss.item())
