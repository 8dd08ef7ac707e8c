"""Layers that start as copies of each other, as nn.TransformerEncoder makes them."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
branch = nn.Linear(16, 2)
model = nn.ModuleDict({"enc": encoder, "a": branch, "b": copy.deepcopy(branch), "inp": nn.Linear(5, 16)})
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(160, 6, 5)
y = torch.randint(0, 2, (160,))
z = (x[:, 0, 0] > 0).long()
for epoch in range(4):
    for part in torch.randperm(160).split(16):
        h = model["enc"](model["inp"](x[part])).mean(1)
        loss = F.cross_entropy(model["a"](h), y[part]) + F.cross_entropy(model["b"](h), z[part])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
