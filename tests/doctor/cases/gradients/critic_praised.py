"""A feeder learns how much to give from a judge of its choices. Both losses go backward, then both optimizers step."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
feeder = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
feeder_opt = torch.optim.Adam(feeder.parameters(), lr=1e-3)
judge_opt = torch.optim.Adam(judge.parameters(), lr=1e-3)
for step in range(40):
    s, a = torch.randn(16, 3), torch.rand(16, 1) * 2 - 1
    r = -((s[:, :1] - a) ** 2)
    feeder_opt.zero_grad()
    judge_opt.zero_grad()
    F.mse_loss(judge(torch.cat([s, a], 1)), r).backward()
    (-judge(torch.cat([s, feeder(s)], 1)).mean()).backward()
    judge_opt.step()
    feeder_opt.step()
