"""A critic of real and made rings: it raises the real ones and lowers the made ones in two backwards, then the maker has its turn."""

import torch
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
maker_opt = torch.optim.Adam(maker.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(40):
    angle = 6.28 * torch.rand(16)
    real = torch.stack([angle.cos(), angle.sin()], 1)
    critic_opt.zero_grad()
    (-critic(real).mean()).backward()
    critic(maker(torch.randn(16, 2)).detach()).mean().backward()
    critic_opt.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.3, 0.3)
    maker_opt.zero_grad()
    (-critic(maker(torch.randn(16, 2))).mean()).backward()
    maker_opt.step()
