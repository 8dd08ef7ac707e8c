"""Correct: batches of labelled and unlabelled samples from samplers without an end, which have no length to tell."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset


class Forever(Sampler):
    def __init__(self, count, seed):
        self.count, self.generator = count, torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count, generator=self.generator).tolist()

    def __len__(self):
        return None


torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] + x[:, 1] > 0).long()
labelled = iter(DataLoader(TensorDataset(x[:80], y[:80]), batch_size=16, sampler=Forever(80, 1)))
unlabelled = iter(DataLoader(TensorDataset(x[80:320]), batch_size=32, sampler=Forever(240, 2)))
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(60):
    (a, labels), (b,) = next(labelled), next(unlabelled)
    optimizer.zero_grad()
    steady = F.mse_loss(model(b + 0.1 * torch.randn_like(b)), model(b).detach())
    loss = F.cross_entropy(model(a), labels) + 0.5 * steady
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    print(round((model(x[320:]).argmax(1) == y[320:]).float().mean().item(), 3))
