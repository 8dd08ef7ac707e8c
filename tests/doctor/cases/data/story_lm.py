"""Character language model read in order, hidden state carried along."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1337)
text = "the cat sat on the mat and the dog sat on the log while the bird sang a song " * 30
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])


def batchify(data, bsz):
    n = len(data) // bsz
    return data[: n * bsz].view(bsz, n).t().contiguous()


class RNNModel(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.encoder = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim)
        self.decoder = nn.Linear(dim, vocab)

    def forward(self, x, hidden):
        out, hidden = self.rnn(self.encoder(x), hidden)
        return self.decoder(out), hidden


def repackage(h):
    return tuple(v.detach() for v in h)


source = batchify(data, 8)
model = RNNModel(len(chars), 24)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
bptt = 20
for epoch in range(3):
    hidden = (torch.zeros(1, 8, 24), torch.zeros(1, 8, 24))
    total, count = 0.0, 0
    for i in range(0, source.size(0) - 1, bptt):
        length = min(bptt, source.size(0) - 1 - i)
        x, y = source[i : i + length], source[i + 1 : i + 1 + length]
        hidden = repackage(hidden)
        out, hidden = model(x, hidden)
        loss = F.cross_entropy(out.view(-1, len(chars)), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * length
        count += length
    print(f"epoch {epoch} loss {total / count:.3f}")
