"""A network written from tensors, with its updates written out."""

import torch

torch.manual_seed(0)
x = torch.randn(120, 3)
y = torch.sin(x.sum(dim=1, keepdim=True))
w1 = (torch.randn(3, 16) * 0.5).requires_grad_()
b1 = torch.zeros(16, requires_grad=True)
w2 = (torch.randn(16, 1) * 0.2).requires_grad_()
learning_rate = 1e-3

for epoch in range(40):
    hidden = torch.tanh(x @ w1 + b1)
    loss = ((hidden @ w2 - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w1, b1, w2):
            p -= learning_rate * p.grad
    if epoch % 10 == 0:
        print(epoch, loss.item())
