import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
inputs = torch.randn(256, 6)
targets = inputs.pow(2).mean(1, keepdim=True)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.MSELoss()
for step in range(50):
    x, t = next(iter(loader))
    optimizer.zero_grad()
    loss = criterion(model(x), t)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
