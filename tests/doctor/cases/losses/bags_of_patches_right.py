"""Bags of patches: a slide is positive where one patch is."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(2)
bags = torch.randn(900, 10, 8)
hot = torch.rand(900, 10) < 0.07
bags[hot] += 2.0
labels = hot.any(1).float()


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, bags):
        each = self.patch(bags).squeeze(-1)
        return each.max(dim=1).values


model = Bags()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    for idx in torch.randperm(700).split(35):
        loss = F.binary_cross_entropy_with_logits(model(bags[idx]), labels[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, ((model(bags[700:]) > 0).float() == labels[700:]).float().mean().item())
