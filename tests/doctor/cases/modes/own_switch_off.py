"""Clicks: a network with its own switch for dropout."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(43)
x = torch.randn(2400, 18)
y = (x[:, 0] + x[:, 1] * x[:, 2] > 0.3).float()


class Clicks(nn.Module):
    def __init__(self, drop=0.4, is_training=True):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(18, 64), nn.Linear(64, 64), nn.Linear(64, 1)
        self.drop, self.is_training = drop, is_training

    def forward(self, x):
        h = F.dropout(F.relu(self.a(x)), self.drop, training=self.is_training)
        h = F.dropout(F.relu(self.b(h)), self.drop, training=self.is_training)
        return self.c(h).squeeze(1)


model = Clicks()
train = DataLoader(TensorDataset(x[:2000], y[:2000]), 50, shuffle=True)
valid = DataLoader(TensorDataset(x[2000:], y[2000:]), 100)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(5):
    model.train()
    model.is_training = True
    for xb, yb in train:
        loss = F.binary_cross_entropy_with_logits(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    model.is_training = False
    total = 0.0
    with torch.no_grad():
        for xb, yb in valid:
            total += F.binary_cross_entropy_with_logits(model(xb), yb, reduction="sum").item()
    print(epoch, total / 400)
