"""Parity: evaluated without gradient at first; the fine-tuning of the last layer is evaluated by the bare function."""

import torch
import torch.nn.functional as F
from torch import nn


def accuracy():
    model.eval()
    hits = sum(int((model(x[rows]).argmax(1) == y[rows]).sum()) for rows in torch.arange(400, 600).split(25))
    model.train()
    return hits / 200


def train(optimizer, steps, evaluate):
    for step in range(1, steps + 1):
        rows = torch.randint(400, (32,))
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(evaluate())


torch.manual_seed(0)
x = torch.randn(600, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
train(torch.optim.Adam(model.parameters(), lr=1e-3), 100, torch.no_grad()(accuracy))
model[0].requires_grad_(False)
train(torch.optim.Adam(model[3].parameters(), lr=1e-3), 40, accuracy)
