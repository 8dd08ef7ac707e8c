"""Updates by hand with the momentum kept in the gradient."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
x = torch.randn(640, 8)
y = x[:, :3].argmax(1)
for epoch in range(6):
    for i in torch.randperm(640).split(32):
        loss = F.cross_entropy(model(x[i]), y[i])
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
                p.grad.mul_(0.9)
print(loss.item())
