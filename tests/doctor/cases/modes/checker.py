import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in loader:
            hits += ((model(x) > 0).float() == y).sum().item()
    return hits / len(loader.dataset)


if __name__ == "__main__":
    torch.manual_seed(6)
    x = torch.rand(360, 2) * 2 - 1
    y = ((x[:, :1] > 0) ^ (x[:, 1:] > 0)).float()
    train_loader = DataLoader(TensorDataset(x[:280], y[:280]), batch_size=28, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[280:], y[280:]), batch_size=80)
    model = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.BCEWithLogitsLoss()
    model.train()
    for epoch in range(5):
        for xb, yb in train_loader:
            optimizer.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, val {evaluate(model, val_loader):.3f}")
