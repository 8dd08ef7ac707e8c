import torch
from torch import nn


def set_requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad = flag


class Pix:
    def __init__(self):
        self.G = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
        self.D = nn.Sequential(nn.Conv2d(2, 8, 3, stride=2), nn.BatchNorm2d(8), nn.LeakyReLU(0.2), nn.Conv2d(8, 1, 3))
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.5, 0.999))
        self.gan = nn.BCEWithLogitsLoss()

    def judge(self, a, b, real):
        out = self.D(torch.cat([a, b], 1))
        return self.gan(out, torch.ones_like(out) if real else torch.zeros_like(out))

    def optimize(self, a, b):
        fake = self.G(a)
        set_requires_grad(self.D, True)
        self.opt_d.zero_grad()
        loss_d = 0.5 * (self.judge(a, fake.detach(), False) + self.judge(a, b, True))
        loss_d.backward()
        self.opt_d.step()
        set_requires_grad(self.D, False)
        self.opt_g.zero_grad()
        loss_g = self.judge(a, fake, True) + 10 * nn.functional.l1_loss(fake, b)
        loss_g.backward()
        self.opt_g.step()
        return loss_d.item(), loss_g.item()


torch.manual_seed(22)
pix = Pix()
for step in range(40):
    a = torch.randn(4, 1, 10, 10)
    losses = pix.optimize(a, a.roll(1, 3))
print(losses)
