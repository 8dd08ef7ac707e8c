"""Folds of a cross-validation by one network that begins anew for each; the held-out rows are scored as tensors, besides all."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 8)
y = (x[:, 0] + x[:, 1] > 0).long()
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
first = copy.deepcopy(net.state_dict())
for held_out in torch.randperm(300).chunk(3):
    rest = torch.ones(300, dtype=torch.bool)
    rest[held_out] = False
    loader = DataLoader(TensorDataset(x[rest], y[rest]), batch_size=25, shuffle=True)
    net.load_state_dict(first)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(4):
        net.train()
        for a, b in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(a), b).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print(float(F.cross_entropy(net(x[held_out]), y[held_out])), float(F.cross_entropy(net(x), y)))
