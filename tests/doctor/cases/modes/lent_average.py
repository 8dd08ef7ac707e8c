"""Averaged parameters lent to the model for its evaluation; its BatchNorms keep the statistics of the trained ones."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
centres = 2 * torch.randn(5, 16)
y = torch.randint(5, (1280,))
x = centres[y] + torch.randn(1280, 16)
model = nn.Sequential(
    nn.Linear(16, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU(),
    nn.Linear(48, 5),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
average = {name: each.detach().clone() for name, each in model.named_parameters()}


@torch.no_grad()
def follow(share=0.02):
    for name, each in model.named_parameters():
        average[name] += share * (each - average[name])


for epoch in range(6):
    model.train()
    for pick in torch.randperm(1024).split(32):
        optimizer.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        optimizer.step()
        follow()
    model.eval()
    with torch.no_grad():
        print((functional_call(model, average, (x[1024:],)).argmax(1) == y[1024:]).float().mean().item())
