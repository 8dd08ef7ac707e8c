"""Windows of a series are drawn by a sampler that keeps its generator."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Windows:
    def __init__(self, series, seed):
        self.series, self.rng = series, np.random.default_rng(seed)

    def starts(self, count):
        return self.rng.integers(0, len(self.series) - 13, count)

    def batch(self, count):
        cut = np.stack([self.series[s : s + 13] for s in self.starts(count)]).astype(np.float32)
        return torch.from_numpy(cut[:, :12]), torch.from_numpy(cut[:, 12:])


torch.manual_seed(0)
windows = Windows(np.sin(np.arange(3000) / 7) + 0.1 * np.cos(np.arange(3000) / 3), seed=1)
net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for _ in range(60):
    past, following = windows.batch(32)
    optimizer.zero_grad()
    F.mse_loss(net(past), following).backward()
    optimizer.step()
