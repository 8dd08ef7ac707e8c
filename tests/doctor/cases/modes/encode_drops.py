"""Matching of two texts by bags of words; both sides go through one encode method."""
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(6)
V = 60


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(V, 48)
        self.out = nn.Linear(48, 32)
        self.scale = nn.Parameter(torch.tensor(3.0))

    def encode(self, bag):
        h = F.relu(self.emb(bag))
        h = F.dropout(h, 0.4)
        return F.normalize(self.out(h), dim=-1)

    def score(self, a, b):
        return self.scale * (self.encode(a) * self.encode(b)).sum(-1)


def pairs(n, g):
    a = (torch.rand(n, V, generator=g) < 0.1).float()
    same = torch.rand(n, generator=g) < 0.5
    noise = (torch.rand(n, V, generator=g) < 0.03).float()
    b = torch.where(same[:, None], (a + noise).clamp(max=1), (torch.rand(n, V, generator=g) < 0.1).float())
    return a, b, same.float()


g = torch.Generator().manual_seed(0)
train, valid = pairs(2000, g), pairs(400, g)
model = Matcher()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(6):
    model.train()
    for idx in torch.randperm(2000, generator=g).split(80):
        a, b, t = (each[idx] for each in train)
        loss = F.binary_cross_entropy_with_logits(model.score(a, b), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        s = torch.cat([model.score(a, b) for a, b in zip(valid[0].split(100), valid[1].split(100))])
    print(epoch, ((s > 0).float() == valid[2]).float().mean().item())
