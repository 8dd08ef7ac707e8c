import torch
from torch import nn

torch.manual_seed(2)
one, mone = torch.tensor(1.0), torch.tensor(-1.0)
netG = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))
netD = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 1))
optD = torch.optim.RMSprop(netD.parameters(), lr=5e-4)
optG = torch.optim.RMSprop(netG.parameters(), lr=5e-4)
for iteration in range(15):
    for p in netD.parameters():
        p.requires_grad = True
    for _ in range(3):
        for p in netD.parameters():
            p.data.clamp_(-0.05, 0.05)
        netD.zero_grad()
        real = torch.randn(24, 2) + 2
        errD_real = netD(real).mean()
        errD_real.backward(one)
        fake = netG(torch.randn(24, 3)).detach()
        errD_fake = netD(fake).mean()
        errD_fake.backward(mone)
        optD.step()
    for p in netD.parameters():
        p.requires_grad = False
    netG.zero_grad()
    errG = netD(netG(torch.randn(24, 3))).mean()
    errG.backward(one)
    optG.step()
    if iteration % 5 == 0:
        print(iteration, (errD_real - errD_fake).item(), errG.item())
