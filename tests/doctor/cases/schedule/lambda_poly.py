import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def poly_lr(base_lr, it, total, power=0.9):
    return base_lr * (1 - it / total) ** power


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-lr", type=float, default=0.02)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(18)
    x = torch.randn(240, 7)
    y = x.abs().sum(1, keepdim=True) / 7
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    model = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.base_lr, momentum=0.9)
    total = args.epochs * len(loader)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda it: poly_lr(args.base_lr, it, total))
    for epoch in range(args.epochs):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(xb), yb)
            loss.backward()
            optimizer.step()
            scheduler.step()
        print(f"{epoch} {loss.item():.4f}")


if __name__ == "__main__":
    main()
