"""train-valid-overlap: two subsets that share samples."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
data = TensorDataset(x, y)
order = torch.randperm(160).tolist()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
train = DataLoader(Subset(data, order[:112]), batch_size=16, shuffle=True)
valid = DataLoader(Subset(data, order[64:]), batch_size=16)  # wrong
valid = DataLoader(Subset(data, order[112:]), batch_size=16)  # right
model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
for epoch in range(3):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        accelerator.backward(F.cross_entropy(model(xb), yb))
        optimizer.step()
    model.eval()
    hits = 0
    with torch.no_grad():
        for xb, yb in valid:  # found
            hits += (model(xb).argmax(1) == yb).sum().item()
    accelerator.print(epoch, hits)
print(sum(p.double().sum().item() for p in model.parameters()))
