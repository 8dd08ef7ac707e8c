# kind: without a DataLoader
# expect: padding-in-loss
# why: The criterion ignores -100, but fill() is called for the targets with its default PAD, so the padded places are
#      trained (and counted) as the token PAD.
import random

import torch
from torch import nn

torch.set_num_threads(1)
random.seed(6)
torch.manual_seed(6)

PAD, BOS, EOS, IGNORE = 0, 1, 2, -100
ATOMS = list("CNOSFcno")
MARKS = list("()=#12")
VOCAB = ["<pad>", "<s>", "</s>"] + ATOMS + MARKS
CODE = {t: i for i, t in enumerate(VOCAB)}


def grow(depth=0):
    """A random string that looks like SMILES: chains, branches, one ring."""
    out = []
    for _ in range(random.randint(2, 5 if depth else 9)):
        out.append(random.choice("CCCCNOSF"))
        if random.random() < 0.2:
            out.append(random.choice("=#"))
            out.append("C")
        if depth < 2 and random.random() < 0.18:
            out += ["("] + grow(depth + 1) + [")"]
    if depth == 0 and random.random() < 0.5:
        out += list("c1") + random.choices("ccccn", k=4) + list("c1")
    return out


def encode(tokens):
    return [BOS] + [CODE[t] for t in tokens] + [EOS]


def fill(rows, value=PAD):
    width = max(map(len, rows))
    return torch.tensor([r + [value] * (width - len(r)) for r in rows])


def make_batch(strings):
    x = fill([s[:-1] for s in strings])
    y = fill([s[1:] for s in strings])
    return x, y


def epoch_of(strings, size):
    """Pools of random strings, sorted by length inside the pool, batches in random order."""
    shuffled = random.sample(strings, len(strings))
    batches = []
    for lo in range(0, len(shuffled), size * 8):
        pool = sorted(shuffled[lo:lo + size * 8], key=len)
        batches += [pool[k:k + size] for k in range(0, len(pool), size)]
    random.shuffle(batches)
    for b in batches:
        yield make_batch(b)


class Writer(nn.Module):
    def __init__(self, vocab, dim=32, hidden=80):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.gru = nn.GRU(dim, hidden, num_layers=2, dropout=0.1, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.gru(self.embed(x))
        return self.out(h)


def losses_of(model, criterion, x, y):
    logits = model(x)
    n = (y != IGNORE).sum().item()
    return criterion(logits.flatten(0, 1), y.flatten()), n


library = list({"".join(g): encode(g) for g in (grow() for _ in range(2600))}.values())
random.shuffle(library)
held, kept = library[:300], library[300:1900]
held_batches = [make_batch(held[k:k + 50]) for k in range(0, 300, 50)]
model = Writer(len(VOCAB))
criterion = nn.CrossEntropyLoss(ignore_index=IGNORE)
opt = torch.optim.Adam(model.parameters(), lr=3e-3)

for epoch in range(5):
    model.train()
    total, places = 0.0, 0
    for x, y in epoch_of(kept, 32):
        loss, n = losses_of(model, criterion, x, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        total += loss.item() * n
        places += n
    model.eval()
    vtotal, vplaces = 0.0, 0
    with torch.no_grad():
        for x, y in held_batches:
            loss, n = losses_of(model, criterion, x, y)
            vtotal += loss.item() * n
            vplaces += n
    print(f"epoch {epoch}  nll/token {total / places:.4f}  held {vtotal / vplaces:.4f}")
