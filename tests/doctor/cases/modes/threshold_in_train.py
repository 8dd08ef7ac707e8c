"""Churn from account features held in memory."""
import torch
from torch import nn

torch.manual_seed(3)
N, F_IN = 3000, 20
x = torch.randn(N, F_IN)
w = torch.randn(F_IN)
y = ((x @ w + 0.5 * torch.randn(N)) > 0).float()
xtr, ytr, xva, yva = x[:2400], y[:2400], x[2400:], y[2400:]


class Churn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(F_IN, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 1))

    def forward(self, x):
        return self.body(x).squeeze(-1)


def accuracy(model, x, y, chunk=200):
    hits = 0
    with torch.no_grad():
        for lo in range(0, len(x), chunk):
            prob = torch.sigmoid(model(x[lo:lo + chunk]))
            hits += ((prob > 0.5).float() == y[lo:lo + chunk]).sum().item()
    return hits / len(x)


model = Churn()
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
loss_fn = nn.BCEWithLogitsLoss()
for epoch in range(6):
    model.train()
    for idx in torch.randperm(len(xtr)).split(64):
        opt.zero_grad()
        loss = loss_fn(model(xtr[idx]), ytr[idx])
        loss.backward()
        opt.step()
    print(epoch, f"{loss.item():.3f} acc {accuracy(model, xva, yva):.3f}")
