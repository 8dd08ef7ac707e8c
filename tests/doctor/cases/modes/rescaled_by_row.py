"""Spectra brought into 0..1, each by its own smallest and largest number."""

import torch
import torch.nn.functional as F
from torch import nn


def bring_into_unit(z):
    low, high = torch.aminmax(z, dim=-1, keepdim=True)
    return (z - low) / (high - low + 1e-9)


class Spectra(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"in": nn.Linear(40, 24), "out": nn.Linear(24, 3)})

    def forward(self, batch):
        h = torch.tanh(self.layers["in"](bring_into_unit(batch["spectrum"])))
        return self.layers["out"](h)


torch.manual_seed(0)
peaks = torch.randn(3, 40)
y = torch.randint(3, (520,))
x = peaks[y] * torch.rand(520, 1) * 3 + torch.randn(520, 40)
model = Spectra()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
for epoch in range(8):
    model.train()
    for pick in torch.randperm(416).split(26):
        loss = F.cross_entropy(model({"spectrum": x[pick]}), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print((model({"spectrum": x[416:]}).argmax(1) == y[416:]).float().mean().item())
