import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 14, generator=g)
    return TensorDataset(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


def validate(model, loader):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).argmax(dim=1, keepdim=True)
            correct += (pred == y).sum().item()
            total += y.size(0)
    return 100.0 * correct / total


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(make(480, 1), batch_size=32, shuffle=True)
    valid_loader = DataLoader(make(160, 2), batch_size=40)
    model = nn.Sequential(nn.Linear(14, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        model.train()
        for x, y in train_loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        print(f"epoch {epoch} accuracy {validate(model, valid_loader):.1f}%")


main()
