import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 6, generator=g)
    y = x[:, 0] - 2 * x[:, 1] + torch.randn(n, generator=g) ** 3
    return TensorDataset(x, y)


def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += criterion(model(x).squeeze(1), y).item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(make(480, 1), batch_size=32, shuffle=True)
    test_loader = DataLoader(make(163, 2), batch_size=40)
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
    criterion = nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(model(x).squeeze(1), y).backward()
            optimizer.step()
        print(f"epoch {epoch} test loss {evaluate(model, test_loader, criterion):.4f}")


main()
