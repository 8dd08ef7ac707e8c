# kind: in a second phase
# expect: padding-in-loss
# why: pretraining uses packed rows without padding. In the fine-tuning collate the prompts become -100, but the
#   padding after the answers keeps its id, so most of the loss of short rows is "predict padding".
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.set_num_threads(1)
torch.manual_seed(42)
random.seed(42)

PAD, BOS, SEP, EOS = 0, 1, 2, 3
FIRST = 4
LETTERS = 16
VOCAB = FIRST + LETTERS


def sentence(n):
    """The letters walk up or down by one; both ends wrap round."""
    at, way = random.randrange(LETTERS), random.choice((1, -1))
    out = []
    for _ in range(n):
        if random.random() < 0.1:
            way = -way
        at = (at + way) % LETTERS
        out.append(FIRST + at)
    return out


def packed(rows, length):
    stream = []
    while len(stream) < rows * length:
        stream += [BOS] + sentence(random.randint(4, 20)) + [EOS]
    return torch.tensor(stream[: rows * length]).view(rows, length)


def instruction():
    """prompt: a few letters; answer: each of them moved on by three"""
    n = random.choices((2, 3, 4, 12), weights=(4, 4, 3, 1))[0]
    ask = [FIRST + random.randrange(LETTERS) for _ in range(n)]
    answer = [FIRST + (t - FIRST + 3) % LETTERS for t in ask]
    prompt = [BOS] + ask + [SEP]
    return prompt, answer + [EOS]


def collate(pairs):
    ids = pad_sequence([torch.tensor(p + a) for p, a in pairs], batch_first=True, padding_value=PAD)
    labels = ids.clone()
    for row, (prompt, _) in zip(labels, pairs):
        row[: len(prompt)] = -100
    return ids[:, :-1], labels[:, 1:]


class Decoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.att = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        t = ids.shape[1]
        mask = torch.ones(t, t).triu(1).bool()
        a, _ = self.att(h, h, h, attn_mask=mask, need_weights=False)
        return self.out(self.norm(h + a))


lm = Decoder()
ce = nn.CrossEntropyLoss()

rows = packed(3200, 25)
valid_rows = packed(256, 25)
opt = torch.optim.AdamW(lm.parameters(), lr=2e-3)
order = torch.randperm(len(rows))
for step, pick in enumerate(order.split(32)):
    lm.train()
    seq = rows[pick]
    loss = ce(lm(seq[:, :-1]).flatten(0, 1), seq[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 24:
        lm.eval()
        with torch.no_grad():
            held = ce(lm(valid_rows[:, :-1]).flatten(0, 1), valid_rows[:, 1:].flatten()).item()
        print(f"pretrain {step + 1:3d}  train {loss.item():.3f}  valid {held:.3f}")

pairs = [instruction() for _ in range(3200 + 320)]
seen = {tuple(p) for p, _ in pairs[:3200]}
held_out = [pair for pair in pairs[3200:] if tuple(pair[0]) not in seen]
train_pairs = pairs[:3200]
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
for epoch in range(2):
    random.shuffle(train_pairs)
    for at in range(0, len(train_pairs), 32):
        lm.train()
        ids, labels = collate(train_pairs[at:at + 32])
        loss = ce(lm(ids).flatten(0, 1), labels.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if at % 800 == 0:
            lm.eval()
            with torch.no_grad():
                ids, labels = collate(held_out)
                guess = lm(ids).argmax(-1)
                asked = labels >= FIRST
                hit = (guess == labels)[asked].float().mean().item()
            print(f"tune {epoch}/{at:4d}  loss {loss.item():.3f}  letters right {hit:.3f}")
