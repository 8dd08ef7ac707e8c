import math

import torch
import torch.nn.functional as F

torch.manual_seed(21)
per_class, classes, batch_size = 64, 3, 16
xs, ys = [], []
for c in range(classes):
    angle = torch.rand(per_class) * 2 * math.pi
    radius = 0.5 + 0.5 * c + 0.05 * torch.randn(per_class)
    xs.append(torch.stack([radius * torch.cos(angle), radius * torch.sin(angle)], 1))
    ys.append(torch.full((per_class,), c))
x_train, y_train = torch.cat(xs), torch.cat(ys)

model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, classes))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(5):
    losses = []
    for i in range(0, len(x_train), batch_size):
        xb, yb = x_train[i : i + batch_size], y_train[i : i + batch_size]
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(epoch, sum(losses) / len(losses))
