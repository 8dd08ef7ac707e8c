import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class Disc(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.a = spectral_norm(nn.Linear(2, 32))
        self.b = spectral_norm(nn.Linear(32, 1))
        self.embed = nn.Embedding(classes, 32)

    def forward(self, x, y):
        h = F.leaky_relu(self.a(x), 0.1)
        return self.b(h) + (self.embed(y) * h).sum(1, keepdim=True)


class Gen(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.embed = nn.Embedding(classes, 8)
        self.net = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, z, y):
        return self.net(torch.cat([z, self.embed(y)], 1))


def main(steps=20, n_critic=2, batch=24):
    torch.manual_seed(3)
    gen, disc = Gen(), Disc()
    og = torch.optim.Adam(gen.parameters(), 1e-3, betas=(0.0, 0.9))
    od = torch.optim.Adam(disc.parameters(), 1e-3, betas=(0.0, 0.9))
    centres = torch.tensor([[0.0, 2.0], [2.0, 0.0], [-2.0, -2.0]])
    for step in range(steps):
        for _ in range(n_critic):
            y = torch.randint(0, 3, (batch,))
            real = centres[y] + 0.2 * torch.randn(batch, 2)
            fake = gen(torch.randn(batch, 4), y).detach()
            loss_d = F.relu(1 - disc(real, y)).mean() + F.relu(1 + disc(fake, y)).mean()
            od.zero_grad()
            loss_d.backward()
            od.step()
        y = torch.randint(0, 3, (batch,))
        loss_g = -disc(gen(torch.randn(batch, 4), y), y).mean()
        og.zero_grad()
        loss_g.backward()
        og.step()
        if step % 5 == 0:
            print(step, loss_d.item(), loss_g.item())


if __name__ == "__main__":
    main()
