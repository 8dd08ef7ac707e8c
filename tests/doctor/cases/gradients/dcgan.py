"""Generator and discriminator for bars in small images."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Generator(nn.Module):
    def __init__(self, nz):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 16), nn.Tanh())

    def forward(self, z):
        return self.main(z).view(-1, 1, 4, 4)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(128, 1))

    def forward(self, x):
        return self.main(x).view(-1)


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, 0.0, 0.1)


def main():
    torch.manual_seed(999)
    bars = torch.full((160, 1, 4, 4), -1.0)
    bars[torch.arange(160), 0, torch.arange(160) % 4] = 1.0
    dataloader = DataLoader(TensorDataset(bars + 0.05 * torch.randn_like(bars)), batch_size=16, shuffle=True)
    netG, netD = Generator(8), Discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = torch.optim.Adam(netD.parameters(), lr=5e-4, betas=(0.5, 0.999))
    optimizerG = torch.optim.Adam(netG.parameters(), lr=5e-4, betas=(0.5, 0.999))
    G_losses, D_losses = [], []
    for epoch in range(4):
        for i, (real,) in enumerate(dataloader):
            netD.zero_grad()
            label = torch.full((len(real),), 1.0)
            errD_real = criterion(netD(real), label)
            errD_real.backward()
            fake = netG(torch.randn(len(real), 8))
            label.fill_(0.0)
            errD_fake = criterion(netD(fake.detach()), label)
            errD_fake.backward()
            errD = errD_real + errD_fake
            optimizerD.step()
            netG.zero_grad()
            label.fill_(1.0)
            errG = criterion(netD(fake), label)
            errG.backward()
            optimizerG.step()
            G_losses.append(errG.item())
            D_losses.append(errD.item())
        print(epoch, D_losses[-1], G_losses[-1])


if __name__ == "__main__":
    main()
