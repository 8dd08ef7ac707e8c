"""Max-norm rows after each step; exponential average in a second network; best weights put back."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 3))
average = copy.deepcopy(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(240, 8)
y = x[:, :3].argmax(1)
best, best_loss = copy.deepcopy(model.state_dict()), float("inf")
for epoch in range(5):
    model.train()
    for part in torch.randperm(200).split(20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[part]), y[part])
        loss.backward()
        optimizer.step()
        for m in model:
            if isinstance(m, nn.Linear):
                m.weight.data = torch.renorm(m.weight.data, 2, 0, 1.0)
        for a, b in zip(average.parameters(), model.parameters(), strict=False):
            a.data.mul_(0.95).add_(b.data, alpha=0.05)
    model.eval()
    with torch.no_grad():
        value = F.cross_entropy(model(x[200:]), y[200:]).item()
    if value < best_loss:
        best, best_loss = copy.deepcopy(model.state_dict()), value
    print(epoch, value)
model.load_state_dict(best)
