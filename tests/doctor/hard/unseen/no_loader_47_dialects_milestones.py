# kind: without a DataLoader
# expect: nothing
# like: schedule-wrong-unit
# why: MultiStepLR is stepped after every batch, and its milestones are shares of the number of updates that the whole
#      plan of hand-made batches has: the drops come at 60% and 85% of the run as meant.
import random
from functools import partial

import torch
from torch import nn, optim

SETTINGS = dict(seed=9, dialects=5, words=2400, held=400, epochs=10, batch=64, lr=0.12)
LETTERS = "abcdefghijklmnopqrstuvwxyz"

REGISTRY = {}


def register(name):
    def wrap(fn):
        REGISTRY[name] = fn
        return fn
    return wrap


@register("data")
def dialect_words(n_dialects, n, rng):
    """Each dialect has its own chances for one letter to follow another."""
    chances = []
    for _ in range(n_dialects):
        chances.append({a: [rng.random() ** 5 for _ in LETTERS] for a in LETTERS})
    rows = []
    for _ in range(n):
        d = rng.randrange(n_dialects)
        word = [rng.choice(LETTERS)]
        for _ in range(rng.randint(5, 11)):
            word += rng.choices(LETTERS, weights=chances[d][word[-1]])
        rows.append(("".join(word), d))
    return rows


@register("features")
def bigram_ids(word):
    ids = [LETTERS.index(c) for c in word]
    return torch.tensor([26 * a + b for a, b in zip(ids, ids[1:])])


@register("model")
def build_model(dialects, dim=32):
    return BagNet(26 * 26, dim, dialects)


class BagNet(nn.Module):
    def __init__(self, size, dim, dialects):
        super().__init__()
        self.bag = nn.EmbeddingBag(size, dim, mode="mean")
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.2), nn.Linear(dim, dialects))

    def forward(self, flat, offsets):
        return self.net(self.bag(flat, offsets))


def flatten(rows):
    """Words of any length laid end to end, with the place where each begins."""
    ids = [f for f, _ in rows]
    ends = torch.tensor([len(f) for f in ids]).cumsum(0)
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]])
    return torch.cat(ids), offsets, torch.tensor([d for _, d in rows])


def plan(n, epochs, batch, rng):
    """All batches of the whole run, as index lists, epoch by epoch."""
    book = []
    for _ in range(epochs):
        order = rng.sample(range(n), n)
        book.append([order[k:k + batch] for k in range(0, n, batch)])
    return book


def assess(model, sheets, loss_fn):
    model.eval()
    loss = hits = count = 0
    with torch.no_grad():
        for flat, offsets, d in sheets:
            out = model(flat, offsets)
            loss += loss_fn(out, d).item() * len(d)
            hits += (out.argmax(1) == d).sum().item()
            count += len(d)
    return loss / count, hits / count


def main(s):
    torch.set_num_threads(1)
    rng = random.Random(s["seed"])
    torch.manual_seed(s["seed"])
    rows = [(REGISTRY["features"](w), d) for w, d in REGISTRY["data"](s["dialects"], s["words"], rng)]
    held, kept = rows[:s["held"]], rows[s["held"]:]
    sheets = [flatten(held[k:k + 100]) for k in range(0, len(held), 100)]
    book = plan(len(kept), s["epochs"], s["batch"], rng)
    total = sum(map(len, book))

    model = REGISTRY["model"](s["dialects"])
    make_opt = partial(optim.SGD, lr=s["lr"], momentum=0.9, nesterov=True, weight_decay=1e-4)
    opt = make_opt(model.parameters())
    steps = optim.lr_scheduler.MultiStepLR(opt, milestones=[int(0.6 * total), int(0.85 * total)], gamma=0.2)
    loss_fn = nn.CrossEntropyLoss()
    for number, batches in enumerate(book):
        model.train()
        running = 0.0
        for picks in batches:
            flat, offsets, d = flatten([kept[i] for i in picks])
            loss = loss_fn(model(flat, offsets), d)
            opt.zero_grad()
            loss.backward()
            opt.step()
            steps.step()
            running += loss.item() * len(d)
        v, acc = assess(model, sheets, loss_fn)
        print(f"{number} train {running / len(kept):.4f} valid {v:.4f} acc {acc:.3f} lr {steps.get_last_lr()[0]:.4f}")


if __name__ == "__main__":
    main(SETTINGS)
