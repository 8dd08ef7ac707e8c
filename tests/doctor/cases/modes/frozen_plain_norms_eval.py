"""A frozen encoder with plain norms below a trainable head."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(19)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64, affine=False), nn.ReLU(),
                                   nn.Linear(64, 64), nn.BatchNorm1d(64, affine=False), nn.ReLU())
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.trunk(x))


def data(n, shift, g):
    x = torch.randn(n, 20, generator=g)
    return x * (1 + shift) + shift, (x[:, :3]).argmax(1)


def run(model, params, x, y, g, epochs):
    opt = torch.optim.AdamW(params, lr=2e-3)
    for epoch in range(epochs):
        model.train()
        if not model.trunk[0].weight.requires_grad:
            model.trunk.eval()
        for idx in torch.randperm(len(x), generator=g).split(40):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            print(epoch, (model(x).argmax(1) == y).float().mean().item())


g = torch.Generator().manual_seed(3)
model = Net(3)
run(model, model.parameters(), *data(1200, 0.0, g), g, 4)
for p in model.trunk.parameters():
    p.requires_grad = False
model.head = nn.Linear(64, 3)
run(model, model.head.parameters(), *data(600, 1.5, g), g, 5)
