import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class EMA:
    def __init__(self, model, decay=0.9):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters(), strict=True):
            e.lerp_(p, 1 - self.decay)


def accuracy(model, loader):
    with torch.no_grad():
        return sum((model(a).argmax(1) == b).sum().item() for a, b in loader) / len(loader.dataset)


def main():
    torch.manual_seed(25)
    x = torch.randn(280, 5) * 2 + 1
    y = (x.sum(1) > 5).long()
    train = DataLoader(TensorDataset(x[:220], y[:220]), batch_size=20, shuffle=True)
    valid = DataLoader(TensorDataset(x[220:], y[220:]), batch_size=30)
    model = nn.Sequential(nn.Linear(5, 20), nn.BatchNorm1d(20), nn.ReLU(), nn.Linear(20, 2))
    ema = EMA(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        for a, b in train:
            opt.zero_grad()
            nn.functional.cross_entropy(model(a), b).backward()
            opt.step()
            ema.update(model)
        print(epoch, accuracy(ema.module, valid))


main()
