import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def make_spirals(n):
    t = torch.rand(n) * 3 + 0.3
    y = torch.randint(0, 2, (n,))
    angle = 2.5 * t + y * torch.pi
    x = torch.stack([t * angle.cos(), t * angle.sin()], 1) / 3
    return x + 0.03 * torch.randn(n, 2), y


def build():
    return nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(*make_spirals(256)), batch_size=32, shuffle=True)
    model = build()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for epoch in range(args.epochs):
        scheduler.step()
        loss = train_epoch(model, loader, optimizer)
        print(f"epoch {epoch} loss {loss:.4f} lr {optimizer.param_groups[0]['lr']:.4f}")


if __name__ == "__main__":
    main()
