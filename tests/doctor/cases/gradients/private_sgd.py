"""Training with per-sample clipped gradients and noise."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
X = torch.randn(96, 6)
Y = (X[:, 0] - X[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
clip, noise = 1.0, 0.1

for epoch in range(3):
    order = torch.randperm(len(X))
    for start in range(0, len(X), 8):
        sums = [torch.zeros_like(p) for p in model.parameters()]
        rows = order[start : start + 8]
        for i in rows:
            model.zero_grad()
            loss = F.cross_entropy(model(X[i : i + 1]), Y[i : i + 1])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), clip)
            for total, p in zip(sums, model.parameters()):
                total += p.grad
        for total, p in zip(sums, model.parameters()):
            p.grad = (total + noise * clip * torch.randn_like(total)) / len(rows)
        optimizer.step()
    with torch.no_grad():
        print(epoch, (model(X).argmax(1) == Y).float().mean().item())
