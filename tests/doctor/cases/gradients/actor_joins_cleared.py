"""A judge of steering learns alone, then the driver joins. The judge is cleared before each of its own backwards."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
driver = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1), nn.Tanh())
judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
driver_opt = torch.optim.Adam(driver.parameters(), lr=1e-3)
judge_opt = torch.optim.Adam(judge.parameters(), lr=1e-3)
for step in range(120):
    s, a = torch.randn(16, 3), torch.rand(16, 1) * 2 - 1
    judge_opt.zero_grad()
    F.mse_loss(judge(torch.cat([s, a], 1)), -((s[:, :1] - a) ** 2)).backward()
    judge_opt.step()
    if step >= 90:
        (-judge(torch.cat([s, driver(s)], 1)).mean()).backward()
        driver_opt.step()
        driver_opt.zero_grad()
