"""Three tasks through one criterion; only the last head squashes its scores."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
heads = nn.ModuleDict({"a": nn.Linear(32, 3), "b": nn.Linear(32, 4), "c": nn.Sequential(nn.Linear(32, 5), nn.Softmax(-1))})
opt = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=3e-3)
X = torch.randn(1280, 8)
Y = {"a": X[:, :3].argmax(1), "b": X[:, :4].argmax(1), "c": X[:, :5].argmax(1)}


def criterion(name, h, idx):
    return F.cross_entropy(heads[name](h), Y[name][idx])


for epoch in range(3):
    for idx in torch.randperm(1280).split(32):
        opt.zero_grad()
        h = body(X[idx])
        sum(criterion(n, h, idx) for n in heads).backward()
        opt.step()
