"""Generate short line drawings with an adversarial loss."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Generator(nn.Module):
    def __init__(self, latent=6, size=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, 32), nn.ReLU(), nn.Linear(32, size), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(size, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


def main(epochs=4):
    torch.manual_seed(3)
    slope = torch.rand(160, 1) * 2 - 1
    lines = slope * torch.linspace(-1, 1, 16)
    loader = DataLoader(TensorDataset(lines), batch_size=16, shuffle=True)
    generator, discriminator = Generator(), Discriminator()
    optimizer_G = torch.optim.Adam(generator.parameters(), lr=5e-4)
    optimizer_D = torch.optim.Adam(discriminator.parameters(), lr=5e-4)

    for epoch in range(epochs):
        for (real,) in loader:
            valid = torch.ones(len(real), 1)
            fake = torch.zeros(len(real), 1)

            optimizer_G.zero_grad()
            gen = generator(torch.randn(len(real), 6))
            g_loss = F.binary_cross_entropy_with_logits(discriminator(gen), valid)
            g_loss.backward()
            optimizer_G.step()

            real_loss = F.binary_cross_entropy_with_logits(discriminator(real), valid)
            fake_loss = F.binary_cross_entropy_with_logits(discriminator(gen.detach()), fake)
            d_loss = (real_loss + fake_loss) / 2
            d_loss.backward()
            optimizer_D.step()
        print(f"[{epoch}/{epochs}] d={d_loss.item():.3f} g={g_loss.item():.3f}")


if __name__ == "__main__":
    main()
