# kind: without a DataLoader
# expect: nothing
# like: not-shuffled
# why: Truncated backpropagation through one long text: blocks must come in reading order because the hidden state is
#      carried (detached) from block to block. Validation text is the held-out end of the corpus.
import math
import random

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(1234)
random.seed(1234)


# ---------------------------------------------------------------- text
def babble(n_chars):
    nouns = ["fox", "river", "stone", "girl", "king", "bird", "cloud"]
    verbs = ["sees", "finds", "loves", "hears", "crosses"]
    adjectives = ["old", "red", "quiet", "small"]
    out, size = [], 0
    hero = random.choice(nouns)
    while size < n_chars:
        if random.random() < 0.15:
            hero = random.choice(nouns)
        s = f"the {random.choice(adjectives)} {hero} {random.choice(verbs)} the {random.choice(nouns)}. "
        out.append(s)
        size += len(s)
    return "".join(out)[:n_chars]


text = babble(60_000)
chars = sorted(set(text))
index = {c: i for i, c in enumerate(chars)}
ids = torch.tensor([index[c] for c in text])
cut = int(0.9 * len(ids))


def columns(stream, width):
    """Lay the stream out as `width` parallel readers: (time, width)."""
    n = len(stream) // width
    return stream[: n * width].view(width, n).t().contiguous()


def blocks(table, bptt):
    for t in range(0, table.size(0) - 1, bptt):
        n = min(bptt, table.size(0) - 1 - t)
        yield table[t:t + n], table[t + 1:t + 1 + n]


# ---------------------------------------------------------------- model
class CharLM(nn.Module):
    def __init__(self, vocab, emb=24, hidden=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.drop = nn.Dropout(0.15)
        self.rnn = nn.LSTM(emb, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x, state):
        h, state = self.rnn(self.drop(self.emb(x)), state)
        return self.out(self.drop(h)), state


def detach(state):
    return tuple(s.detach() for s in state)


train_cols = columns(ids[:cut], 20)
valid_cols = columns(ids[cut:], 10)
model = CharLM(len(chars))
criterion = nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), lr=4e-3)
BPTT = 35

for epoch in range(4):
    model.train()
    state, total, tokens = None, 0.0, 0
    for x, y in blocks(train_cols, BPTT):
        if state is not None:
            state = detach(state)
        opt.zero_grad()
        logits, state = model(x, state)
        loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * y.numel()
        tokens += y.numel()

    model.eval()
    vstate, vtotal, vtokens = None, 0.0, 0
    with torch.no_grad():
        for x, y in blocks(valid_cols, BPTT):
            logits, vstate = model(x, vstate)
            vtotal += criterion(logits.reshape(-1, len(chars)), y.reshape(-1)).item() * y.numel()
            vtokens += y.numel()
    print(f"epoch {epoch}: train ppl {math.exp(total / tokens):.3f}  valid ppl {math.exp(vtotal / vtokens):.3f}")
