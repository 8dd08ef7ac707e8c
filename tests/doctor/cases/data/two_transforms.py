import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Subset


def jitter(x):
    return x + 0.1 * torch.randn_like(x)


class Patches(Dataset):
    def __init__(self, x, y, transform=None):
        self.x, self.y, self.transform = x, y, transform

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        return (self.transform(x) if self.transform else x), self.y[i]


torch.manual_seed(0)
y = torch.randint(0, 2, (240,))
x = torch.randn(240, 16) + y[:, None] * torch.linspace(-1, 1, 16)
order = torch.randperm(240).tolist()
train = Subset(Patches(x, y, jitter), order[:180])
valid = Subset(Patches(x, y), order[180:])
train_loader = DataLoader(train, batch_size=18, shuffle=True)
valid_loader = DataLoader(valid, batch_size=30)
model = nn.Sequential(nn.Linear(16, 20), nn.ReLU(), nn.Linear(20, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(5):
    model.train()
    for xb, yb in train_loader:
        optimizer.zero_grad()
        F.cross_entropy(model(xb), yb).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        hits = sum((model(xb).argmax(1) == yb).sum().item() for xb, yb in valid_loader)
    print(epoch, hits / 60)
