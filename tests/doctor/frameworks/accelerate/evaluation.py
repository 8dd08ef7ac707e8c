"""evaluated-in-train-mode: validation without eval()."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
train = DataLoader(TensorDataset(x[:96], y[:96]), batch_size=16, shuffle=True)
valid = DataLoader(TensorDataset(x[96:], y[96:]), batch_size=16)
model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
for epoch in range(3):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        accelerator.backward(F.cross_entropy(model(xb), yb))
        optimizer.step()
    model.eval()  # right
    hits = 0
    for xb, yb in valid:
        with torch.no_grad():
            scores = model(xb)  # found
        guessed, true = accelerator.gather_for_metrics((scores.argmax(1), yb))
        hits += (guessed == true).sum().item()
    accelerator.print(epoch, hits)
print(sum(p.double().sum().item() for p in model.parameters()))
