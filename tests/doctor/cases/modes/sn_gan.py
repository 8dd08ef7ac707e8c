import torch
from torch import nn
from torch.nn.utils import spectral_norm

torch.manual_seed(30)
gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
disc = nn.Sequential(spectral_norm(nn.Linear(2, 24)), nn.LeakyReLU(0.1), spectral_norm(nn.Linear(24, 1)))
og = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.9))
od = torch.optim.Adam(disc.parameters(), lr=4e-3, betas=(0.0, 0.9))
for step in range(40):
    real = torch.randn(32, 2) * 0.2 + 1
    with torch.no_grad():
        fake = gen(torch.randn(32, 4))
    loss_d = torch.relu(1 - disc(real)).mean() + torch.relu(1 + disc(fake)).mean()
    od.zero_grad()
    loss_d.backward()
    od.step()
    loss_g = -disc(gen(torch.randn(32, 4))).mean()
    og.zero_grad()
    loss_g.backward()
    og.step()
disc.eval()
with torch.no_grad():
    print(disc(torch.randn(8, 2) * 0.2 + 1).mean().item(), loss_d.item(), loss_g.item())
