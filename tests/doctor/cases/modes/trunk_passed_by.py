"""A trunk trained on one machine's vibrations, a new head for another machine."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(9)
g = torch.Generator().manual_seed(2)


def machine(n, gain, classes):
    y = torch.randint(0, classes, (n,), generator=g)
    t = torch.linspace(0, 1, 32)
    x = torch.sin(2 * torch.pi * t[None] * (2 + y[:, None].float())) * gain + 0.6 * torch.randn(n, 32, generator=g)
    return x[:, None], y


trunk = nn.Sequential(nn.Conv1d(1, 12, 5, padding=2), nn.BatchNorm1d(12), nn.ReLU(),
                      nn.Conv1d(12, 24, 5, stride=2), nn.BatchNorm1d(24), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten())
first = nn.Linear(96, 4)
x, y = machine(1200, 1.0, 4)
opt = torch.optim.Adam([*trunk.parameters(), *first.parameters()], lr=2e-3)
trunk.train()
for epoch in range(4):
    for idx in torch.randperm(1200, generator=g).split(48):
        loss = F.cross_entropy(first(trunk(x[idx])), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()

x2, y2 = machine(600, 2.5, 3)
head = nn.Linear(96, 3)
opt = torch.optim.Adam(head.parameters(), lr=3e-3)
for epoch in range(6):
    trunk.train()
    head.train()
    for idx in torch.randperm(450, generator=g).split(30):
        with torch.no_grad():
            feats = trunk(x2[idx])
        loss = F.cross_entropy(head(feats), y2[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    trunk.eval()
    with torch.no_grad():
        acc = (head(trunk(x2[450:])).argmax(1) == y2[450:]).float().mean().item()
    print(epoch, f"{loss.item():.3f} {acc:.3f}")
