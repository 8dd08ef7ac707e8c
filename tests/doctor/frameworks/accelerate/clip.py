"""clip-after-step: gradients are clipped when the step has used them."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(96, 6)
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loader = DataLoader(TensorDataset(x, 3 * x[:, :1].sin()), batch_size=16, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(xb), yb)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 0.5)  # right
        optimizer.step()
        accelerator.clip_grad_norm_(model.parameters(), 0.5)  # wrong, found
    accelerator.print(epoch, loss.item())
print(sum(p.double().sum().item() for p in model.parameters()))
