"""Gesture classification; one function runs training and validation epochs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(8)
t = torch.linspace(0, 6.28, 48)


def signals(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(4, (n,), generator=g)
    phase = torch.rand(n, 1, generator=g) * 6
    x = torch.sin((y[:, None] + 1) * t + phase) + 0.5 * torch.randn(n, 48, generator=g).cumsum(1) / 4
    return TensorDataset(x.unsqueeze(1), y)


def augment(x):
    shift = int(torch.randint(-6, 7, ()))
    return x.roll(shift, -1) * (0.7 + 0.6 * torch.rand(len(x), 1, 1)) + 0.3 * torch.randn_like(x)


model = nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv1d(16, 16, 5, padding=2), nn.ReLU(),
                      nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()


def run_epoch(loader, train):
    model.train(train)
    total, right, count = 0.0, 0, 0
    with torch.set_grad_enabled(train):
        for x, y in loader:
            out = model(augment(x) if train else x)
            loss = criterion(out, y)
            if train:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total, right, count = total + loss.item() * len(y), right + (out.argmax(1) == y).sum().item(), count + len(y)
    return total / count, right / count


train, valid = DataLoader(signals(640, 1), batch_size=32, shuffle=True), DataLoader(signals(160, 2), batch_size=40)
for epoch in range(8):
    print(epoch + 1, *(f"{value:.3f}" for value in (*run_epoch(train, True), *run_epoch(valid, False))))
