import torch
from torch import nn

torch.manual_seed(16)


def train_epoch(model, x, y, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    total = 0.0
    for idx in torch.randperm(len(x)).split(25):
        loss = nn.functional.mse_loss(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


x = torch.randn(500, 8)
y = torch.sin(x[:, :2])
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2))
for epoch in range(10):
    print(epoch, train_epoch(model, x, y, 5e-3 * 0.9 ** epoch))
