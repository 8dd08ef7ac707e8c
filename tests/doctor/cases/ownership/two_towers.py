"""Match users and items with two towers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class TwoTower(nn.Module):
    def __init__(self, users, items, dim=16):
        super().__init__()
        self.users = nn.Embedding(users, dim)
        self.items = nn.Embedding(items, dim)
        self.user_mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.item_mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u, i):
        return (self.user_mlp(self.users(u)) * self.item_mlp(self.items(i))).sum(1) + self.bias


def main():
    torch.manual_seed(0)
    u, i = torch.randint(0, 30, (400,)), torch.randint(0, 40, (400,))
    y = ((u + i) % 3 == 0).float()
    loader = DataLoader(TensorDataset(u, i, y), batch_size=40, shuffle=True)
    model = TwoTower(30, 40)
    optimizer = torch.optim.Adam(
        [
            {"params": model.users.parameters(), "lr": 1e-2},
            {"params": model.items.parameters(), "lr": 1e-2},
            {"params": model.user_mlp.parameters()},
            {"params": [model.bias]},
        ],
        lr=1e-3,
    )
    for epoch in range(4):
        total = 0.0
        for ub, ib, yb in loader:
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(ub, ib), yb)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(yb)
        print(epoch, total / 400)


main()
