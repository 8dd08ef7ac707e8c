"""Ranking pairs: now and then a batch has no pair, and its loss is a plain zero."""

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def ranking_loss(scores, gain):
    better = (gain[:, None] - gain[None, :]) > 0.5
    if not better.any():
        return torch.zeros((), requires_grad=True)
    gaps = scores[:, None] - scores[None, :]
    return torch.relu(1 - gaps[better]).mean()


torch.manual_seed(0)
model = Scorer()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(6, 4)
    gain = x[:, 0] * (0.0 if step % 10 == 7 else 1.0)
    optimizer.zero_grad()
    loss = ranking_loss(model(x), gain)
    loss.backward()
    optimizer.step()
print("loss", loss.item())
