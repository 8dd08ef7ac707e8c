"""Gradients are cleared in a hook that was meant to come after the step."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)


def wipe(optimizer, args, kwargs):
    optimizer.zero_grad()


opt.register_step_pre_hook(wipe)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(3):
    for idx in torch.randperm(1280).split(32):
        F.cross_entropy(model(X[idx]), Y[idx]).backward()
        opt.step()
