"""Transfer with decay by hand, as the optimizer has none."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(12)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(20, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
        self.head = nn.Linear(24, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


x = torch.randn(640, 20)
y = (x @ torch.randn(20, 3)).argmax(1)
model = Net()
model.backbone.requires_grad_(False)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1, momentum=0.9)
for epoch in range(6):
    for rows in torch.randperm(640).split(32):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 - 1e-3)
    print(epoch + 1, f"{loss.item():.3f}")
