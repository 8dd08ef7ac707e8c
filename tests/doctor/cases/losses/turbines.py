import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Average:
    def __init__(self):
        self.total = 0.0
        self.count = 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def value(self):
        return self.total / max(1, self.count)


def main():
    torch.manual_seed(36)
    x = torch.randn(700, 7)
    y = x.sum(1) + torch.randn(700) ** 3
    train_loader = DataLoader(TensorDataset(x[:500], y[:500]), batch_size=32, shuffle=True, drop_last=True)
    valid_loader = DataLoader(TensorDataset(x[500:], y[500:]), batch_size=66)
    model = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        model.train()
        running = 0.0
        for xb, yb in train_loader:
            loss = F.l1_loss(model(xb).squeeze(1), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        average = Average()
        model.eval()
        with torch.no_grad():
            for xb, yb in valid_loader:
                average.update(F.l1_loss(model(xb).squeeze(1), yb).item(), len(xb))
        print(epoch, running / len(train_loader), average.value)


main()
