"""A maker of rings and its critic: both losses go backward, then both optimizers step."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
maker = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
maker_opt = torch.optim.Adam(maker.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
against = F.binary_cross_entropy_with_logits
for step in range(40):
    angle = 6.28 * torch.rand(16)
    real, fake = torch.stack([angle.cos(), angle.sin()], 1), maker(torch.randn(16, 2))
    maker_opt.zero_grad()
    critic_opt.zero_grad()
    (against(critic(real), ones) + against(critic(fake.detach()), zeros)).backward()
    against(critic(fake), ones).backward()
    critic_opt.step()
    maker_opt.step()
