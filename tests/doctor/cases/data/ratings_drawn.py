"""Matrix factorisation on ratings drawn at random."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
users, items = 300, 200
rng = np.random.default_rng(0)
u, i = rng.integers(users, size=8000), rng.integers(items, size=8000)
tu, ti = rng.normal(size=(users, 4)), rng.normal(size=(items, 4))
r = ((tu[u] * ti[i]).sum(1) / 2 + 0.1 * rng.normal(size=8000)).astype("float32")


class Factors(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)

    def forward(self, a, b):
        return (self.user(a) * self.item(b)).sum(1)


sampler = np.random.default_rng(13)


def draw(size=256):
    picked = sampler.integers(len(r), size=size)
    return torch.from_numpy(u[picked]), torch.from_numpy(i[picked]), torch.from_numpy(r[picked])


model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(200):
    a, b, rating = draw()
    loss = nn.functional.mse_loss(model(a, b), rating)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 39:
        print(step + 1, f"{loss.item():.4f}")
