"""Forecast the next value of noisy sine waves with an LSTM."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __init__(self, count, length, seed):
        g = torch.Generator().manual_seed(seed)
        phase = torch.rand(count, 1, generator=g) * 6.28
        t = torch.arange(length + 1).float()[None] * 0.3
        self.series = torch.sin(t + phase) + 0.05 * torch.randn(count, length + 1, generator=g)

    def __len__(self):
        return len(self.series)

    def __getitem__(self, i):
        s = self.series[i]
        return s[:-1, None], s[1:, None]


class Forecaster(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.rnn = nn.LSTM(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.head(h)


def train_one_epoch(model, loader, criterion, optimizer):
    model.train()
    seen, total = 0, 0.0
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * len(x)
        seen += len(x)
    return total / seen


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    values = [(criterion(model(x), y).item(), len(x)) for x, y in loader]
    return sum(v * n for v, n in values) / sum(n for _, n in values)


def main():
    torch.manual_seed(0)
    train = DataLoader(Waves(96, 20, 1), batch_size=12, shuffle=True)
    valid = DataLoader(Waves(24, 20, 2), batch_size=24)
    model = Forecaster()
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    optimizer.zero_grad()
    for epoch in range(5):
        a = train_one_epoch(model, train, criterion, optimizer)
        b = evaluate(model, valid, criterion)
        print(f"epoch {epoch}  train {a:.4f}  valid {b:.4f}")


main()
