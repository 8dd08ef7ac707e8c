# kind: several losses and optimizers
# expect: foreign-gradients
# also: missing-zero-grad
# why: both optimizers are cleared once at the top, then the generator's backward fills the discriminator too,
#      and the discriminator's step adds to its own gradients those of the generator, which want the fakes to look real (they cancel in part).
"""GAN that imitates short sensor pulses."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def draw_pulses(n, length, gen):
    t = torch.linspace(-1, 1, length)
    centre = torch.rand(n, 1, generator=gen) * 0.8 - 0.4
    width = torch.rand(n, 1, generator=gen) * 0.2 + 0.1
    height = torch.rand(n, 1, generator=gen) * 0.5 + 0.5
    clean = height * torch.exp(-((t - centre) / width) ** 2)
    return clean + 0.02 * torch.randn(n, length, generator=gen)


class Generator(nn.Module):
    def __init__(self, z, length):
        super().__init__()
        self.z = z
        self.net = nn.Sequential(nn.Linear(z, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2),
                                 nn.Linear(96, length))

    def forward(self, n):
        return self.net(torch.randn(n, self.z))


class Discriminator(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
                                  nn.Conv1d(16, 32, 5, stride=2, padding=2), nn.LeakyReLU(0.2), nn.Flatten())
        self.out = nn.Linear(32 * (length // 4), 1)

    def forward(self, x):
        return self.out(self.conv(x.unsqueeze(1))).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--length", type=int, default=48)
    ap.add_argument("--lr-g", type=float, default=4e-4)
    ap.add_argument("--lr-d", type=float, default=4e-4)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(17)

    netG = Generator(12, args.length)
    netD = Discriminator(args.length)
    opt_g = torch.optim.Adam(netG.parameters(), lr=args.lr_g, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(netD.parameters(), lr=args.lr_d, betas=(0.5, 0.99))
    reference = draw_pulses(2000, args.length, gen)

    for step in range(1, args.steps + 1):
        real = draw_pulses(args.batch, args.length, gen)
        opt_g.zero_grad()
        opt_d.zero_grad()

        # generator
        fake = netG(args.batch)
        loss_g = F.softplus(-netD(fake)).mean()
        loss_g.backward()
        opt_g.step()

        # discriminator, on the same fakes
        loss_d = F.softplus(-netD(real)).mean() + F.softplus(netD(fake.detach())).mean()
        loss_d.backward()
        opt_d.step()

        if step % 100 == 0:
            netG.eval()
            with torch.no_grad():
                sample = netG(2000)
                gap = (sample.mean(0) - reference.mean(0)).abs().mean()
                gap_std = (sample.std(0) - reference.std(0)).abs().mean()
            netG.train()
            print(f"step {step:4d}  D {loss_d.item():.3f}  G {loss_g.item():+.3f}  "
                  f"mean gap {gap:.4f}  std gap {gap_std:.4f}")


if __name__ == "__main__":
    main()
