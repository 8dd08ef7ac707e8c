import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoder(nn.Module):
    def __init__(self, vocab, dim, length):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(length, dim)
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        t = ids.size(1)
        h = self.emb(ids) + self.pos(torch.arange(t))
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        h = h + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return self.head(h + self.ff(h))


class LanguageModel:
    def __init__(self, vocab=11, length=14):
        self.vocab, self.length = vocab, length
        self.net = Decoder(vocab, 24, length)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=3e-3)

    def loss(self, ids):
        logits = self.net(ids)
        return F.cross_entropy(logits[:, :-1].reshape(-1, self.vocab), ids[:, 1:].reshape(-1))

    def update(self, ids):
        self.net.train()
        self.optimizer.zero_grad()
        loss = self.loss(ids)
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(3)
lm = LanguageModel()
for step in range(40):
    start, stride = torch.randint(0, 11, (16, 1)), torch.randint(1, 4, (16, 1))
    ids = (start + stride * torch.arange(14)) % 11
    value = lm.update(ids)
    if step % 10 == 9:
        print(step + 1, round(value, 4))
