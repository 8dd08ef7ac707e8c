"""An exactly solvable problem: the loss reaches zero and stays there."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(120, 4)
y = x @ torch.tensor([[1.0], [2.0], [-1.0], [0.5]])
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
criterion = nn.MSELoss()
for epoch in range(40):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
print("loss", loss.item())
