import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


def task():
    amplitude, phase = 0.5 + torch.rand(1) * 2, torch.rand(1) * 3
    x = torch.rand(20, 1) * 6 - 3
    y = amplitude * torch.sin(x + phase)
    return x[:10], y[:10], x[10:], y[10:]


def adapt(model, x, y, lr=0.05, steps=2):
    params = dict(model.named_parameters())
    for _ in range(steps):
        loss = F.mse_loss(functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, params.values(), create_graph=True)
        params = {n: p - lr * g for (n, p), g in zip(params.items(), grads)}
    return params


torch.manual_seed(11)
model = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 1))
meta = torch.optim.Adam(model.parameters(), lr=3e-3)
for iteration in range(30):
    meta.zero_grad()
    outer = 0.0
    for _ in range(3):
        xs, ys, xq, yq = task()
        fast = adapt(model, xs, ys)
        outer = outer + F.mse_loss(functional_call(model, fast, (xq,)), yq)
    outer = outer / 3
    outer.backward()
    meta.step()
    if iteration % 10 == 0:
        print(iteration, outer.item())
