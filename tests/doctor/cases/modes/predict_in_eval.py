"""Energy use of buildings: a model with a predict method of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)
x = torch.randn(2200, 12)
y = x[:, 0] * x[:, 1] + x[:, 2] + 0.1 * torch.randn(2200)


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 32))
        self.head = nn.Sequential(nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))

    def forward(self, x, y):
        return ((self.head(self.encoder(x)).squeeze(1) - y) ** 2).mean()

    @torch.no_grad()
    def predict(self, x):
        return self.head(self.encoder(x)).squeeze(1)


def validate(model, loader):
    errors = []
    model.eval()
    for xb, yb in loader:
        errors.append((model.predict(xb) - yb).abs())
    return torch.cat(errors).mean().item()


model = Energy()
train = DataLoader(TensorDataset(x[:1800], y[:1800]), 60, shuffle=True)
valid = DataLoader(TensorDataset(x[1800:], y[1800:]), 100)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(7):
    model.train()
    for xb, yb in train:
        opt.zero_grad()
        loss = model(xb, yb)
        loss.backward()
        opt.step()
    print(epoch, validate(model, valid))
