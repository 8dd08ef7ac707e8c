"""Tone classes by stages in a list whose parameters are collected by hand."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(17)


class Tone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = [nn.LSTM(6, 24, num_layers=2, dropout=0.5, batch_first=True), nn.Linear(24, 3)]

    def forward(self, x):
        out, _ = self.stages[0](x)
        return self.stages[1](out[:, -1])

    def weights(self):
        return [p for stage in self.stages for p in stage.parameters()]


g = torch.Generator().manual_seed(0)
y = torch.randint(0, 3, (900,), generator=g)
t = torch.linspace(0, 6, 14)
x = torch.sin(t[None, :, None] * (1 + y[:, None, None])) + 0.5 * torch.randn(900, 14, 6, generator=g)
model = Tone()
opt = torch.optim.Adam(model.weights(), lr=3e-3)
for epoch in range(6):
    model.train()
    for idx in torch.randperm(700, generator=g).split(35):
        loss = F.cross_entropy(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        acc = [(model(xb).argmax(1) == yb).float().mean().item() for xb, yb in zip(x[700:].split(50), y[700:].split(50))]
    print(epoch, sum(acc) / len(acc))
