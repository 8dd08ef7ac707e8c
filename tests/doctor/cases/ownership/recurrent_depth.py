"""One block applied again and again, and activations that are shared."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Universal(nn.Module):
    def __init__(self, dim=16, rounds=4):
        super().__init__()
        act, drop = nn.ReLU(), nn.Dropout(0.0)
        self.inp = nn.Sequential(nn.Linear(4, dim), act, drop, nn.Linear(dim, dim), act, drop)
        self.block = nn.Linear(dim, dim)
        layer = nn.Linear(dim, dim)
        self.tail = nn.ModuleList(copy.deepcopy(layer) for _ in range(2))
        self.rounds = rounds
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for _ in range(self.rounds):
            h = h + torch.tanh(self.block(h))
        for layer in self.tail:
            h = h + torch.tanh(layer(h))
        return self.out(h).squeeze(1)


torch.manual_seed(0)
x = torch.randn(200, 4)
y = torch.cos(x).sum(1)
model = Universal()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(4):
    model.train()
    for part in torch.randperm(200).split(20):
        opt.zero_grad()
        loss = F.mse_loss(model(x[part]), y[part])
        loss.backward()
        opt.step()
    print(epoch, loss.item())
