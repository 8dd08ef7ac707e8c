import torch
from torch import nn


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))

    def forward(self, z):
        return self.net(z)


torch.manual_seed(3)
netG, netD = G(), nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(24, 1))
optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()
fixed_noise = torch.randn(16, 8)
grids = []
for it in range(45):
    real = torch.randn(32, 2) * 0.3 + torch.tensor([1.0, -1.0])
    fake = netG(torch.randn(32, 8))
    netD.zero_grad()
    lossD = bce(netD(real), torch.ones(32, 1)) + bce(netD(fake.detach()), torch.zeros(32, 1))
    lossD.backward()
    optD.step()

    netG.zero_grad()
    lossG = bce(netD(fake), torch.ones(32, 1))
    lossG.backward()
    optG.step()
    if it % 15 == 0:
        with torch.no_grad():
            grids.append(netG(fixed_noise).detach().cpu())
        print(it, lossD.item(), lossG.item())
