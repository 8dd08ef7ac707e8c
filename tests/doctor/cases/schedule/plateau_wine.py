import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def train(model, device, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def test(model, device, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (model(x.to(device)).argmax(1) == y.to(device)).sum().item()
    return right / len(loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(14)
    device = torch.device("cpu")
    centres = torch.randn(6, 12)
    y = torch.randint(0, 6, (700,))
    x = centres[y] + 0.9 * torch.randn(700, 12)
    train_loader = DataLoader(TensorDataset(x[:400], y[:400]), batch_size=50, shuffle=True)
    test_loader = DataLoader(TensorDataset(x[400:], y[400:]), batch_size=150)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.5)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=3)
    for epoch in range(14):
        loss = train(model, device, train_loader, optimizer, criterion)
        acc = test(model, device, test_loader)
        scheduler.step(acc)
        print(f"{epoch:2d} {loss:.3f} {acc:.3f} {optimizer.param_groups[0]['lr']:.5f}")
