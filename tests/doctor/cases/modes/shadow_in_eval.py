"""Sensor classes with a moving average of the weights that is what gets evaluated."""
import copy
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(11)
x = torch.randn(2600, 16)
y = (x[:, :4] + 0.3 * torch.randn(2600, 4)).argmax(1)
train = DataLoader(TensorDataset(x[:2000], y[:2000]), batch_size=50, shuffle=True)
valid = DataLoader(TensorDataset(x[2000:], y[2000:]), batch_size=100)


class Shadow:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.module.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)


@torch.no_grad()
def score(net, loader):
    right = total = 0
    for xb, yb in loader:
        right += (net(xb).argmax(1) == yb).sum().item()
        total += len(yb)
    return right / total


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))
shadow = Shadow(model)
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for xb, yb in train:
        loss = F.cross_entropy(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        shadow.update(model)
    print(epoch, round(score(shadow.module, valid), 3))
