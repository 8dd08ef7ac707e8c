"""Meta-learning of sine waves: the outer gradient goes through the inner updates."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
meta = torch.optim.Adam(net.parameters(), lr=3e-3)


def task():
    amplitude, phase = torch.rand(()) * 2 + 0.5, torch.rand(()) * 3.14
    return lambda x: amplitude * torch.sin(x + phase)


for iteration in range(32):
    meta.zero_grad()
    losses = []
    for _ in range(2):
        f = task()
        x, q = torch.rand(10, 1) * 6 - 3, torch.rand(10, 1) * 6 - 3
        fast = dict(net.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(functional_call(net, fast, (x,)), f(x))
            grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {k: v - 0.02 * g for (k, v), g in zip(fast.items(), grads)}
        losses.append(F.mse_loss(functional_call(net, fast, (q,)), f(q)))
    outer = torch.stack(losses).mean()
    outer.backward()
    meta.step()
    if iteration % 10 == 0:
        print(iteration, outer.item())
