import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def freeze(module):
    for p in module.parameters():
        p.requires_grad = False


def main():
    torch.manual_seed(0)
    backbone = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
    freeze(backbone)
    head = nn.Linear(16, 2)
    x = torch.randn(240, 8)
    y = (x[:, 0] > 0).long()
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    optimizer = torch.optim.Adam(backbone.parameters(), lr=1e-3)
    for epoch in range(4):
        total = 0.0
        for xb, yb in loader:
            loss = F.cross_entropy(head(backbone(xb)), yb)
            head.zero_grad()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(yb)
        print(epoch, total / 240)


main()
