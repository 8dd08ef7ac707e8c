"""Click prediction with slices of a table, binary targets."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(5)
neg, pos = torch.randn(900, 18), torch.randn(700, 18) + 0.4
x = torch.cat([neg, pos])
y = torch.cat([torch.zeros(900), torch.ones(700)])
xv = torch.cat([torch.randn(150, 18), torch.randn(150, 18) + 0.4])
yv = torch.cat([torch.zeros(150), torch.ones(150)])

model = nn.Sequential(nn.Linear(18, 48), nn.ReLU(), nn.Linear(48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)


def batches(size=64):
    for start in range(0, len(x), size):
        yield x[start:start + size], y[start:start + size]


for epoch in range(6):
    model.train()
    for xb, yb in batches():
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(xb).squeeze(1), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(xv).squeeze(1)
        print(epoch + 1, f"{F.binary_cross_entropy_with_logits(logits, yv):.3f} {((logits > 0) == (yv > 0.5)).float().mean():.3f}")
