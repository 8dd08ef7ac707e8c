"""stale-optimizer: the head is replaced when the optimizer has been made and prepared."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
model[2] = nn.Linear(16, 3)  # right
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)  # found
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
model[2] = nn.Linear(16, 3)  # wrong
for epoch in range(4):
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(epoch, loss.item())
print(sum(p.double().sum().item() for p in model.parameters()))
