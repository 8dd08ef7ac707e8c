import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def petals(n):
    y = torch.randint(0, 3, (n,))
    centre = torch.tensor([[0.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
    return TensorDataset(centre[y] + 0.6 * torch.randn(n, 2), y)


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Dropout(0.4), nn.Linear(hidden, 3))

    def forward(self, x):
        return self.layers(x)


def train(model, loader, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()


def validate(model, loader):
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x).argmax(1) == y).sum().item()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    train_loader = DataLoader(petals(240), batch_size=24, shuffle=True)
    valid_loader = DataLoader(petals(96), batch_size=32)
    model = Net(args.hidden)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(args.epochs):
        train(model, train_loader, optimizer)
        print(epoch, validate(model, valid_loader))


if __name__ == "__main__":
    main()
