"""An oscillator by a network of plain tensors, at fixed points in time."""

import torch

torch.manual_seed(6)
width = 32
w1, b1 = torch.randn(width, 1, requires_grad=True), torch.zeros(width, requires_grad=True)
w2, b2 = (torch.randn(1, width) / width**0.5).requires_grad_(), torch.zeros(1, requires_grad=True)
optimizer = torch.optim.Adam([w1, b1, w2, b2], lr=1e-2)
t = torch.linspace(0, 2, width).unsqueeze(1).requires_grad_()  # as many points as units
for step in range(80):
    u = torch.tanh(t @ w1.t() + b1) @ w2.t() + b2
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    ddu = torch.autograd.grad(du.sum(), t, create_graph=True)[0]
    loss = (ddu + 4 * u).square().mean() + (u[0] - 1).square().sum() + du[0].square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
