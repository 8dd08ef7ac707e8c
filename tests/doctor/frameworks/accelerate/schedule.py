"""schedule-wrong-unit: a one-cycle schedule of all updates, stepped once an epoch."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, epochs=4, steps_per_epoch=len(loader))
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()  # right
    schedule.step()  # wrong, found
    accelerator.print(epoch, schedule.get_last_lr())
print(sum(p.double().sum().item() for p in model.parameters()))
