"""Averaged weights that take the place of the model's own for an evaluation; the statistics stay where they are."""

from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import nn


class Average:
    def __init__(self, model, decay=0.98):
        self.tensors = list(model.parameters())
        self.values, self.decay = [each.detach().clone() for each in self.tensors], decay

    @torch.no_grad()
    def follow(self):
        for value, each in zip(self.values, self.tensors, strict=True):
            value.mul_(self.decay).add_(each, alpha=1 - self.decay)

    @contextmanager
    def in_place(self):
        own = [each.detach().clone() for each in self.tensors]
        self._write(self.values)
        yield
        self._write(own)

    @torch.no_grad()
    def _write(self, values):
        for each, value in zip(self.tensors, values, strict=True):
            each.copy_(value)


torch.manual_seed(0)
centres = 2 * torch.randn(5, 16)
y = torch.randint(5, (1280,))
x = centres[y] + torch.randn(1280, 16)
model = nn.Sequential(
    nn.Linear(16, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48, bias=False), nn.BatchNorm1d(48), nn.ReLU(),
    nn.Linear(48, 5),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
average = Average(model)
for epoch in range(6):
    model.train()
    for pick in torch.randperm(1024).split(32):
        optimizer.zero_grad()
        F.cross_entropy(model(x[pick]), y[pick]).backward()
        optimizer.step()
        average.follow()
    model.eval()
    with average.in_place(), torch.no_grad():
        print((model(x[1024:]).argmax(1) == y[1024:]).float().mean().item())
