import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


def sentence(g):
    n = int(torch.randint(4, 13, (1,), generator=g))
    words = torch.randint(1, 40, (n,), generator=g)
    return words, words % 7 + 1


def pad_batch(batch, length=12):
    words = torch.zeros(len(batch), length, dtype=torch.long)
    tags = torch.zeros(len(batch), length, dtype=torch.long)
    for i, (w, t) in enumerate(batch):
        words[i, : len(w)] = w
        tags[i, : len(t)] = t
    return words, tags


class Tagger(nn.Module):
    def __init__(self, vocab=40, tags=8, d=16):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(2 * d, tags)

    def forward(self, words):
        states, _ = self.lstm(self.embedding(words))
        return self.classifier(states)


torch.manual_seed(10)
g = torch.Generator().manual_seed(10)
corpus = [sentence(g) for _ in range(300)]
loader = DataLoader(corpus, batch_size=25, shuffle=True, collate_fn=pad_batch)
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(4):
    for words, tags in loader:
        scores = model(words)
        loss = F.cross_entropy(scores.permute(0, 2, 1), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
