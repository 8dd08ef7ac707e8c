"""A network that grows: the frozen output of the small one fades out step by step, while that of the large one learns."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.small = nn.Linear(32, 4)
        self.large = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, x):
        h = self.features(x)
        return self.small(h) + self.large(h)


x = torch.randn(480, 12)
y = (x @ torch.randn(12, 4)).argmax(1)
model = Growing()
model.small.requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-3)
for step in range(120):
    rows = torch.randint(480, (32,))
    optimizer.zero_grad()
    F.cross_entropy(model(x[rows]), y[rows]).backward()
    optimizer.step()
    with torch.no_grad():
        model.small.weight.mul_(0.96)
        model.small.bias.mul_(0.96)
