"""Fit heights from ages."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
age = torch.rand(160, 1)
height = 0.5 + 1.2 * age + 0.05 * torch.randn(160, 1)
loader = DataLoader(TensorDataset(age, height), batch_size=16, shuffle=True)

model = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

for epoch in range(4):
    epoch_loss = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        pred = model(x)
        loss = torch.tensor(criterion(pred, y).item(), requires_grad=True)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    print(f"epoch {epoch} {epoch_loss / len(loader):.4f}")
