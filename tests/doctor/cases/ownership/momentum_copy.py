"""Contrastive pretraining; the momentum encoder keeps a shallow copy of the encoder, in a module of its own."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU())
        self.head = nn.Linear(32, 8)

    def forward(self, x):
        return F.normalize(self.head(self.body(x)), dim=1)


class Slow(nn.Module):
    def __init__(self, encoder) -> None:
        super().__init__()
        self.net = copy.copy(encoder)

    @torch.no_grad()
    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def follow(self, encoder) -> None:
        for mine, theirs in zip(self.net.parameters(), encoder.parameters()):
            mine.lerp_(theirs, 0.05)


torch.manual_seed(0)
encoder = Encoder()
slow = Slow(encoder)
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
queue = F.normalize(torch.randn(256, 8), dim=1)
data = torch.randn(512, 12)
for step in range(60):
    x = data[torch.randint(0, len(data), (32,))]
    keys = slow(x + 0.1 * torch.randn(x.shape))
    query = encoder(x + 0.1 * torch.randn(x.shape))
    logits = torch.cat([(query * keys).sum(1, keepdim=True), query @ queue.T], 1) / 0.2
    optimizer.zero_grad()
    F.cross_entropy(logits, torch.zeros(32, dtype=torch.long)).backward()
    optimizer.step()
    slow.follow(encoder)
    queue = torch.cat([queue[32:], keys])
