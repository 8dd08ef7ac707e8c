"""Traffic counts per hour, trained with large effective batches."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Counts(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(8)
        self.hour = torch.rand(n, 1, generator=g)
        self.day = torch.randint(0, 7, (n,), generator=g)
        self.y = torch.sin(6.28 * self.hour[:, 0]) + 0.1 * self.day

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.hour[i], self.day[i], self.y[i]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.day = nn.Embedding(7, 4)
        self.net = nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, hour, day):
        return self.net(torch.cat([hour, self.day(day)], dim=1))[:, 0]


def run_epoch(model, loader, optimizer, accumulate):
    optimizer.zero_grad()
    for i, (hour, day, y) in enumerate(loader):
        loss = F.mse_loss(model(hour, day), y) / accumulate
        loss.backward()
        if i % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
    return loss.item() * accumulate


def main():
    torch.manual_seed(0)
    loader = DataLoader(Counts(11 * 8), batch_size=8, shuffle=True)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(6):
        print(f"epoch {epoch}: {run_epoch(model, loader, optimizer, 3):.4f}")


main()
