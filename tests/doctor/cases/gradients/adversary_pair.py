"""A GAN on drawn batches; real and fake go through one helper."""

import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()


def backward(points, label):
    loss = criterion(critic(points), torch.full((len(points), 1), label))
    loss.backward()
    return loss.item()


for step in range(40):
    fake = generator(torch.randn(16, 4))
    opt_c.zero_grad()
    d_loss = backward(torch.randn(16, 2) * 0.3 + 1, 1.0) + backward(fake.detach(), 0.0)
    opt_c.step()
    opt_g.zero_grad()
    g_loss = backward(fake, 1.0)
    opt_g.step()
print(d_loss, g_loss)
