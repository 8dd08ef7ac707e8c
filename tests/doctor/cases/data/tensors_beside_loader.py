"""Training by a loader, validation on tensors of a second draw from the same table: most of its rows are trained on."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(500, 8)
y = (x[:, 0] + x[:, 1] > 0).long()
train_rows, valid_rows = torch.randperm(500)[:400], torch.randperm(500)[400:]
loader = DataLoader(TensorDataset(x[train_rows], y[train_rows]), batch_size=25, shuffle=True)
valid_x, valid_y = x[valid_rows], y[valid_rows]
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for epoch in range(5):
    net.train()
    for a, b in loader:
        optimizer.zero_grad()
        F.cross_entropy(net(a), b).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        print(epoch, (net(valid_x).argmax(1) == valid_y).float().mean().item())
