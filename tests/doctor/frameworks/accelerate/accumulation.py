"""accumulation-not-divided: four batches an update by hand, of which Accelerate knows nothing."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(192, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=8, shuffle=True)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for epoch in range(3):
    for i, (xb, yb) in enumerate(loader):
        loss = F.cross_entropy(model(xb), yb)
        accelerator.backward(loss)  # wrong, found
        accelerator.backward(loss / 4)  # right
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
    accelerator.print(epoch, loss.item())
print(sum(p.double().sum().item() for p in model.parameters()))
