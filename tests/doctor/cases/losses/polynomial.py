import math

import torch
import torch.nn as nn

torch.manual_seed(0)
x = torch.linspace(-math.pi, math.pi, 512)
y = torch.sin(x)
features = torch.stack([x, x**2 / 5, x**3 / 20], dim=1)

model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
loss_fn = nn.MSELoss(reduction="sum")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(4):
    for rows in torch.randperm(512).split(32):
        loss = loss_fn(model(features[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
