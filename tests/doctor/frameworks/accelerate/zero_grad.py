"""missing-zero-grad: the prepared optimizer is never cleared."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    model.train()
    for xb, yb in loader:
        loss = F.cross_entropy(model(xb), yb)
        accelerator.backward(loss)
        optimizer.step()  # found
        optimizer.zero_grad()  # right
    accelerator.print(epoch, loss.item())
print(sum(p.double().sum().item() for p in model.parameters()))
