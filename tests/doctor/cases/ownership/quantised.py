"""A layer with a learned scale whose custom function gives nothing back for it, inside a parametrised net."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

torch.manual_seed(0)


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return (x / scale).round() * scale

    @staticmethod
    def backward(ctx, g):
        return g, None


class Quant(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.1))

    def forward(self, x):
        return Quantise.apply(x, self.scale)


model = nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 32)), Quant(), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
X = torch.randn(1280, 8)
Y = X[:, :4].argmax(1)
for epoch in range(2):
    for idx in torch.randperm(1280).split(32):
        opt.zero_grad()
        F.cross_entropy(model(X[idx]), Y[idx]).backward()
        opt.step()
