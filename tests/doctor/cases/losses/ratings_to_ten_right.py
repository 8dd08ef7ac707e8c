"""Ratings with a bounded output."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(22)
users, items = torch.randn(60, 6), torch.randn(90, 6)


def ratings(n):
    u, i = torch.randint(0, 60, (n,)), torch.randint(0, 90, (n,))
    return u, i, (5.5 + (users[u] * items[i]).sum(1)).clamp(1, 10).round()


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.i = nn.Embedding(60, 8), nn.Embedding(90, 8)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, u, i):
        return 10 * torch.sigmoid((self.u(u) * self.i(i)).sum(1) + self.bias)


model = Factors()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(250):
    u, i, r = ratings(128)
    loss = F.mse_loss(model(u, i), r)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 49:
        print(step, loss.item())
