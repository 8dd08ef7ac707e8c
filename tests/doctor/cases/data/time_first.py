import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Forecaster(nn.Module):
    """Takes (time, batch, features)."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 20)
        self.out = nn.Linear(20, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[-1]).squeeze(-1)


def collate(samples):
    xs, ys = zip(*samples, strict=False)
    return torch.stack(xs, dim=1), torch.stack(ys)


torch.manual_seed(5)
x = torch.randn(210, 15, 2).cumsum(1) * 0.2
y = x[:, -5:, 0].mean(1) - x[:, :5, 1].mean(1)
train = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=16, shuffle=True, collate_fn=collate)
valid = DataLoader(TensorDataset(x[160:], y[160:]), batch_size=25, collate_fn=collate)
model = Forecaster()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()
for epoch in range(4):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        loss = criterion(model(xb), yb)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        total = sum(criterion(model(xb), yb).item() * len(yb) for xb, yb in valid)
    print(epoch, total / 50)
