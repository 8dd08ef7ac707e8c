"""A correct decoder: the rows of padded queries are masked as a whole, so they see all positions; no loss counts them."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, START, WORDS = 0, 1, 12


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mix = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, h, allowed):
        q, k, v = self.mix(h).chunk(3, dim=-1)
        score = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        weights = score.masked_fill(~allowed, -1e4).softmax(-1)
        return self.out(weights @ v)


class Decoder(nn.Module):
    def __init__(self, dim=24, length=16):
        super().__init__()
        self.words = nn.Embedding(WORDS, dim)
        self.places = nn.Embedding(length, dim)
        self.attention = Attention(dim)
        self.head = nn.Linear(dim, WORDS)

    def forward(self, ids):
        length = ids.shape[1]
        allowed = torch.ones(length, length, dtype=torch.bool).tril() & (ids != PAD).unsqueeze(2)
        h = self.words(ids) + self.places(torch.arange(length))
        return self.head(h + self.attention(h, allowed))


def sentences(count, generator):
    rows = []
    for _ in range(count):
        length = int(torch.randint(4, 11, (), generator=generator))
        first = int(torch.randint(0, 10, (), generator=generator))
        rows.append(torch.tensor([START, *((first + 3 * i) % 10 + 2 for i in range(length))]))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for _ in range(60):
    ids = sentences(16, generator)
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, WORDS), ids[:, 1:].reshape(-1), ignore_index=PAD)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(round(loss.item(), 4))
