"""Two passes an update, written as a loop: the first climbs, the second steps."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rho = 0.05

for step in range(40):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    climbed = []
    for phase in ("climb", "descend"):
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if phase == "climb":
            with torch.no_grad():
                norm = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
                for p in model.parameters():
                    climbed.append(rho * p.grad / norm)
                    p.add_(climbed[-1])
                    p.grad = None
        else:
            with torch.no_grad():
                for p, e in zip(model.parameters(), climbed):
                    p.sub_(e)
            optimizer.step()
            optimizer.zero_grad()
print("loss", loss.item())
