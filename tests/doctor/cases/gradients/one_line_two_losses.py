"""A critic and a generator learn by one and the same line, in a loop; only what has just stepped is cleared."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(3)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
critic = nn.Sequential(nn.Linear(3, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
optimizers = {
    "critic": torch.optim.Adam(critic.parameters(), lr=1e-3),
    "generator": torch.optim.Adam(generator.parameters(), lr=1e-3),
}


def loss_of(name, real):
    fake = generator(torch.randn(len(real), 4))
    if name == "generator":
        return F.softplus(-critic(fake)).mean()
    return F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()


for _ in range(60):
    real = torch.randn(16, 3) * 0.5 + 1
    for name, optimizer in optimizers.items():
        loss_of(name, real).backward()
        optimizer.step()
        optimizer.zero_grad()
