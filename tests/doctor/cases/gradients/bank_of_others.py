"""Pairs that belong together, through the encoder, against old encodings from a bank; both optimizers use both backwards."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
encoder_opt = torch.optim.Adam(encoder.parameters(), lr=1e-3)
judge_opt = torch.optim.Adam(judge.parameters(), lr=1e-3)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
bank = torch.randn(64, 8)
for step in range(40):
    x = torch.randn(16, 6)
    encoder_opt.zero_grad()
    judge_opt.zero_grad()
    pairs = torch.cat([encoder(x), encoder(x + 0.1 * torch.randn_like(x))], 1)
    F.binary_cross_entropy_with_logits(judge(pairs), ones).backward()
    others = bank[torch.randint(0, 64, (16,))]
    F.binary_cross_entropy_with_logits(judge(others), zeros).backward()
    judge_opt.step()
    encoder_opt.step()
    bank = torch.cat([bank[16:], pairs.detach()[torch.randperm(16)]])
