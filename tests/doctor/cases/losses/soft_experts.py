"""Soft mixture of experts over the rows of a batch, and sample weights by a softmax over the batch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Soft(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Linear(16, 3)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))
        self.inp, self.out = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        h = self.inp(x).tanh()
        s = self.phi(h)
        slots = torch.einsum("be,bd->ed", s.softmax(0), h)
        done = torch.stack([e(v) for e, v in zip(self.experts, slots)])
        return self.out(h + s.softmax(1) @ done)


class Weigher(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 1)

    def forward(self, x):
        return self.net(x).softmax(0)


x = torch.randn(512, 8)
y = (x[:, 0] > 0).long()
loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
model, weigher = Soft(), Weigher()
opt = torch.optim.Adam([*model.parameters(), *weigher.parameters()], 1e-3)
for _ in range(3):
    for a, b in loader:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b, reduction="none")
        w = weigher(a)[:, 0]
        ((loss * w).sum() + 0.1 * (w * w.log()).sum()).backward()
        opt.step()
