"""Forecast of demand by a plain network."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
t = torch.arange(3000).float()
series = torch.sin(t / 9) + 0.5 * torch.sin(t / 31) + 0.05 * torch.randn(3000)
windows = series.unfold(0, 25, 1)
x, y = windows[:, :24], windows[:, 24:]
train = DataLoader(TensorDataset(x[:2300], y[:2300]), batch_size=64, shuffle=True)
valid = DataLoader(TensorDataset(x[2330:], y[2330:]), batch_size=64)

net = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 1))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
mse = nn.MSELoss()
for epoch in range(5):
    for xb, yb in train:
        opt.zero_grad()
        loss = mse(net(xb), yb)
        loss.backward()
        opt.step()
    total = 0.0
    for xb, yb in valid:
        total += mse(net(xb), yb).item() * len(xb)
    print(epoch, total / len(valid.dataset))
