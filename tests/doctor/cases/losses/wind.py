import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@torch.no_grad()
def evaluate(model, loader, criterion):
    model.eval()
    total = 0.0
    for x, y in loader:
        loss = criterion(model(x).squeeze(1), y)
        total += loss.item() * x.size(0)
    return total / len(loader.dataset)


torch.manual_seed(35)
x = torch.randn(643, 6)
y = x[:, 0] ** 2 + torch.randn(643) ** 3
train_loader = DataLoader(TensorDataset(x[:480], y[:480]), batch_size=32, shuffle=True)
valid_loader = DataLoader(TensorDataset(x[480:], y[480:]), batch_size=40)
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))
criterion = nn.SmoothL1Loss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        criterion(model(xb).squeeze(1), yb).backward()
        optimizer.step()
    print(epoch, evaluate(model, valid_loader, criterion))
