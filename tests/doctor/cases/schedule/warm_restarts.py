import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
x = torch.linspace(-2, 2, 320).unsqueeze(1)
y = torch.sin(3 * x)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=10, T_mult=2)
snapshots = []
iters = len(loader)
for epoch in range(7):
    for i, (xb, yb) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(xb), yb)
        loss.backward()
        optimizer.step()
        scheduler.step()
    if epoch in (0, 2, 6):
        snapshots.append({k: v.clone() for k, v in model.state_dict().items()})
    print(epoch, loss.item())
print(len(snapshots), "snapshots")
