import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(15)
x = torch.randn(480, 6)
y = x[:, :1].exp()
x[::97] = float("nan")
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
skipped = 0
for epoch in range(3):
    for xb, yb in loader:
        loss = F.smooth_l1_loss(model(xb), yb)
        if not torch.isfinite(loss):
            skipped += 1
            optimizer.zero_grad()
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), skipped)
