import argparse

import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.fc1 = nn.Linear(20, hidden)
        self.drop = nn.Dropout(0.1)
        self.fc2 = nn.Linear(hidden, 5)

    def forward(self, x):
        x = torch.relu(self.fc1(x))
        x = self.fc2(self.drop(x))
        return torch.softmax(x, dim=1)


def make_data(n, generator):
    centres = torch.randn(5, 20, generator=torch.Generator().manual_seed(9))
    y = torch.randint(0, 5, (n,), generator=generator)
    x = centres[y] + 0.7 * torch.randn(n, 20, generator=generator)
    return TensorDataset(x, y)


def train(model, loader, criterion, optimizer):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def test(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(dim=1) == y).sum().item()
    return correct / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(3)
    train_loader = DataLoader(make_data(512, generator), batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(make_data(128, generator), batch_size=64)
    model = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(args.epochs):
        loss = train(model, train_loader, criterion, optimizer)
        print(f"epoch {epoch}: loss {loss:.4f} accuracy {test(model, test_loader):.3f}")


if __name__ == "__main__":
    main()
