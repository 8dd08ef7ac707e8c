"""A table of a module's own, copied into the output layer: two parameters that were meant to be one."""

import torch
import torch.nn.functional as F
from torch import nn


class Words(nn.Module):
    def __init__(self, words=40, size=12):
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, size) * 0.2)
        self.mix = nn.GRU(size, size, batch_first=True)
        self.out = nn.Parameter(self.table.detach().t().contiguous())

    def forward(self, ids):
        h, _ = self.mix(F.embedding(ids, self.table))
        return h @ self.out


torch.manual_seed(0)
follow = torch.randint(40, (40,))
ids = [torch.randint(40, (512,))]
for _ in range(9):
    ids.append(torch.where(torch.rand(512) < 0.8, follow[ids[-1]], torch.randint(40, (512,))))
ids = torch.stack(ids, 1)
model = Words()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for pick in torch.randperm(512).split(64):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids[pick, :-1]).transpose(1, 2), ids[pick, 1:])
        loss.backward()
        optimizer.step()
print(loss.item())
