"""Classification over a noisy channel: noise is the task; every measurement draws it anew."""

import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(512, 32)
y = x[:, :4].argmax(1)
xv = torch.randn(128, 32)
yv = xv[:, :4].argmax(1)


def channel(signal, noise=0.5):
    return signal + noise * torch.randn_like(signal)


loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
opt = torch.optim.Adam(net.parameters(), 3e-3)
for epoch in range(12):
    net.train()
    for a, b in loader:
        opt.zero_grad()
        F.cross_entropy(net(channel(a)), b).backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        print(epoch, F.cross_entropy(net(channel(xv)), yv).item())
