"""Functional training with a dictionary of parameters; the best ones are tested."""

import torch
from torch import nn
import torch.nn.functional as F
from torch.func import functional_call

torch.manual_seed(21)
net = nn.Sequential(nn.Linear(7, 48), nn.Tanh(), nn.Linear(48, 1))
params = {name: p.detach().clone().requires_grad_() for name, p in net.named_parameters()}
x = torch.randn(800, 7)
y = torch.sin(x[:, :1] * 2) + 0.3 * torch.randn(800, 1)
optimizer = torch.optim.Adam(params.values(), lr=3e-2)
best, best_params = float("inf"), None
for epoch in range(9):
    for rows in torch.randperm(500).split(25):
        loss = F.mse_loss(functional_call(net, params, (x[rows],)), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        valid = F.mse_loss(functional_call(net, params, (x[500:650],)), y[500:650]).item()
    if valid < best:
        best, best_params = valid, {name: p.detach() for name, p in params.items()}
with torch.no_grad():
    test = F.mse_loss(functional_call(net, best_params, (x[650:],)), y[650:]).item()
print(f"best {best:.4f} test {test:.4f}")
