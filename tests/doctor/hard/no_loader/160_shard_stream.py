# kind: without a DataLoader
# expect: same-batch-every-step
# why: read_shards() is a generator function that is called anew for every optimizer step, with a fixed order; islice therefore always yields the same first four micro-batches, and the rest of the stream is never seen.
"""Clickstream next-item model, trained from a stream of shards with gradient accumulation."""
from itertools import islice
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(2)

ITEMS, HISTORY, SHARDS, ROWS = 60, 8, 12, 512
MICRO, ACCUM, STEPS = 32, 4, 240


def write_shard(number):
    """One shard as the ETL job would have written it."""
    rng = np.random.default_rng(500 + number)
    group = rng.integers(0, 6, ROWS)
    hist = (group[:, None] * 10 + rng.integers(0, 10, (ROWS, HISTORY))) % ITEMS
    noise = rng.random((ROWS, HISTORY)) < 0.25
    hist = np.where(noise, rng.integers(0, ITEMS, hist.shape), hist)
    target = (group * 10 + (hist[:, -1] + hist[:, -2]) % 10) % ITEMS
    return hist.astype(np.int64), target.astype(np.int64)


STORE = {n: write_shard(n) for n in range(SHARDS + 2)}


def read_shards(names, micro, seed=0):
    rng = np.random.default_rng(seed)
    while True:
        for name in rng.permutation(names):
            hist, target = STORE[name]
            rows = rng.permutation(len(target))
            for lo in range(0, len(rows) - micro + 1, micro):
                take = rows[lo:lo + micro]
                yield torch.from_numpy(hist[take]), torch.from_numpy(target[take])


class NextItem(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.table = nn.Embedding(ITEMS, dim)
        self.mix = nn.Sequential(nn.Linear(HISTORY * dim, 128), nn.ReLU(), nn.Linear(128, ITEMS))

    def forward(self, hist):
        return self.mix(self.table(hist).flatten(1))


def optimizer_step(model, opt, micro_batches):
    opt.zero_grad(set_to_none=True)
    total = 0.0
    for hist, target in micro_batches:
        loss = nn.functional.cross_entropy(model(hist), target) / ACCUM
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return total


@torch.no_grad()
def hit_rate(model, names):
    model.eval()
    hits = rows = 0
    for name in names:
        hist, target = map(torch.from_numpy, STORE[name])
        hits += (model(hist).topk(5).indices == target[:, None]).any(1).sum().item()
        rows += len(target)
    model.train()
    return hits / rows


def main():
    model = NextItem()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    train_names, valid_names = np.arange(SHARDS), [SHARDS, SHARDS + 1]
    for step in range(1, STEPS + 1):
        loss = optimizer_step(model, opt, islice(read_shards(train_names, MICRO), ACCUM))
        if step % 60 == 0:
            print(f"step {step:4d} loss {loss:.4f} hit@5 {hit_rate(model, valid_names):.3f}")


if __name__ == "__main__":
    main()
