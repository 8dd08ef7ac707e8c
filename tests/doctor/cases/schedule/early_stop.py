import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=90)
    p.add_argument("--patience", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.02)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(10)
    x = torch.randn(260, 20)
    y = torch.randint(0, 3, (260,))
    train = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
    valid = DataLoader(TensorDataset(x[200:], y[200:]), batch_size=60)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)
    best, waited = float("inf"), 0
    for epoch in range(args.epochs):
        model.train()
        for xb, yb in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(xb), yb).backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            loss = sum(nn.functional.cross_entropy(model(a), b).item() for a, b in valid)
        print(epoch, loss)
        if loss < best:
            best, waited = loss, 0
        else:
            waited += 1
            if waited >= args.patience:
                print("no better, stopping at", epoch)
                break


main()
