"""Accumulation: a hook before the step divides by the number of micro-batches; one after it moves the schedule and clears."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.5)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 100)


def mean(optimizer, args, kwargs):
    for p in model.parameters():
        p.grad.div_(4)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def after(optimizer, args, kwargs):
    schedule.step()
    optimizer.zero_grad()


opt.register_step_pre_hook(mean)
opt.register_step_post_hook(after)
X = torch.randn(1280, 8)
loader = DataLoader(TensorDataset(X, X[:, :4].argmax(1)), 16, shuffle=True)
for epoch in range(5):
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y).backward()
        if i % 4 == 3:
            opt.step()
