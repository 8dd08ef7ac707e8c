"""Fit a curve with L-BFGS."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = torch.sin(3 * x)
model = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1)).double()
x, y = x.double(), y.double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
criterion = nn.MSELoss()

for i in range(12):

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        return loss

    value = optimizer.step(closure)
    if i % 4 == 0:
        print(i, value.item())
with torch.no_grad():
    print("final", criterion(model(x), y).item())
