"""A character model over a short text."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the old grey cat " * 6
chars = sorted(set(TEXT))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in TEXT])


class CharRNN(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, idx):
        h, _ = self.rnn(self.emb(idx))
        return self.out(h)


def get_batch(block=12, batch=8):
    at = torch.randint(len(data) - block - 1, (batch,))
    x = torch.stack([data[i : i + block] for i in at])
    y = torch.stack([data[i + 1 : i + block + 1] for i in at])
    return x, y


torch.manual_seed(1337)
model = CharRNN(len(chars), 24)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for step in range(40):
    x, y = get_batch()
    logits = model(x)
    loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if step % 10 == 0:
        print(step, loss.item())
