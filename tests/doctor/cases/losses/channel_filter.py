"""Filtering of a channel by convolutions, with a Charbonnier loss."""
import torch
from torch import nn

torch.manual_seed(9)
t = torch.linspace(0, 12, 40)
clean = torch.sin(t[None] * (1 + torch.rand(400, 1))) * (1 + torch.rand(400, 1))
noisy = clean + 0.3 * torch.randn_like(clean)


class Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 7, padding=3), nn.ReLU(), nn.Conv1d(16, 1, 7, padding=3))

    def forward(self, x):
        return self.net(x.unsqueeze(1))


def charbonnier(out, target):
    return torch.sqrt((out - target) ** 2 + 1e-4).mean()


model = Filter()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(8):
    for idx in torch.randperm(320).split(20):
        loss = charbonnier(model(noisy[idx]), clean[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
