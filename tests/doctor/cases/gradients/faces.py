"""Classify small synthetic images; memory allows four at a time."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accum", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4)
    return parser.parse_args()


def data(n=160):
    y = torch.randint(0, 4, (n,))
    x = torch.randn(n, 1, 6, 6) * 0.5
    for i, c in enumerate(y.tolist()):
        x[i, 0, c] += 1.5
    return TensorDataset(x, y)


def main():
    args = parse()
    torch.manual_seed(9)
    loader = DataLoader(data(), batch_size=args.batch_size, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        hits = 0
        for i, (images, targets) in enumerate(loader):
            optimizer.zero_grad()
            logits = model(images)
            loss = criterion(logits, targets) / args.accum
            loss.backward()
            if (i + 1) % args.accum == 0:
                optimizer.step()
            hits += (logits.argmax(1) == targets).sum().item()
        print(f"epoch {epoch}: {hits / len(loader.dataset):.3f}")


if __name__ == "__main__":
    main()
