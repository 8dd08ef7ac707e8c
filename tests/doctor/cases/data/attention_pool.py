import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.view(b, t, self.heads, self.size).transpose(1, 2)
        k = k.view(b, t, self.heads, self.size).transpose(1, 2)
        v = v.view(b, t, self.heads, self.size).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.size), dim=-1)
        y = (w @ v).permute(2, 0, 1, 3)
        return self.out(y.reshape(b, t, d))


class Encoder(nn.Module):
    def __init__(self, vocab, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.position = nn.Parameter(torch.randn(1, 10, dim) * 0.02)
        self.norm = nn.LayerNorm(dim)
        self.attention = SelfAttention(dim, 4)
        self.classify = nn.Linear(dim, 2)

    def forward(self, ids):
        x = self.embed(ids) + self.position
        x = x + self.attention(self.norm(x))
        return self.classify(x.mean(dim=1))


torch.manual_seed(0)
vocab, n = 20, 256
ids = torch.randint(0, vocab, (n, 10))
labels = (ids < 7).sum(1).gt(3).long()
model = Encoder(vocab)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    order = torch.randperm(n)
    total = 0.0
    for start in range(0, n, 32):
        pick = order[start : start + 32]
        logits = model(ids[pick])
        loss = criterion(logits, labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(pick)
    print(epoch, total / n)
