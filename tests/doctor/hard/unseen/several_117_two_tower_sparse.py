# kind: several
# expect: nothing
# why: Might be accused of foreign-gradients, batch-mixed, layer-shared-by-accident or train-valid-overlap: two optimizers share one loss on purpose, other items of the batch serve as negatives, history and target use one table, and the same users appear with later, unseen interactions.
"""Two-tower next-item recommender: ragged histories through a sparse embedding bag, in-batch sampled softmax with logQ correction."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

USERS, ITEMS, LENGTH, WINDOW, DIM = 1500, 300, 14, 6, 32


def simulate(rng):
    """Users walk between clusters of items; popular items come up more often."""
    cluster = rng.integers(0, 12, ITEMS)
    popularity = rng.gamma(1.0, 1.0, ITEMS) + 0.05
    walks = np.zeros((USERS, LENGTH), dtype=np.int64)
    for u in range(USERS):
        c = rng.integers(0, 12)
        for t in range(LENGTH):
            members = np.flatnonzero(cluster == c)
            walks[u, t] = rng.choice(members, p=popularity[members] / popularity[members].sum())
            if rng.random() < 0.4:
                c = (c + 1) % 12
    return walks


def examples(walks, positions):
    """(history, next item) pairs: only what came before the target may be looked at."""
    return [(walks[u, max(0, t - WINDOW) : t], walks[u, t]) for u in range(len(walks)) for t in positions]


def collate(rows):
    lengths = [len(h) for h, _ in rows]
    flat = torch.from_numpy(np.concatenate([h for h, _ in rows]))
    offsets = torch.tensor([0] + lengths[:-1]).cumsum(0)
    return flat, offsets, torch.tensor([int(t) for _, t in rows])


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(ITEMS, DIM, sparse=True)
        nn.init.normal_(self.items.weight, std=0.1)
        self.query = nn.Sequential(nn.Linear(DIM, 64), nn.ReLU(), nn.Linear(64, DIM))
        self.key = nn.Linear(DIM, DIM)
        self.log_temperature = nn.Parameter(torch.tensor(-2.0))

    def users(self, flat, offsets):
        bag = F.embedding_bag(flat, self.items.weight, offsets, mode="mean", sparse=True)
        return F.normalize(self.query(bag), dim=1)

    def keys(self, ids):
        return F.normalize(self.key(self.items(ids)), dim=1)

    def forward(self, flat, offsets, ids):
        return self.users(flat, offsets) @ self.keys(ids).T / self.log_temperature.exp()


def sampled_softmax(logits, target, log_q):
    logits = logits - log_q[target]  # popular items are drawn more often as negatives
    same = target.unsqueeze(0) == target.unsqueeze(1)
    same.fill_diagonal_(False)
    return F.cross_entropy(logits.masked_fill(same, float("-inf")), torch.arange(len(target)))


@torch.no_grad()
def recall_at(model, rows, k=10):
    model.eval()
    hits = 0
    for start in range(0, len(rows), 500):
        flat, offsets, target = collate(rows[start : start + 500])
        top = model(flat, offsets, torch.arange(ITEMS)).topk(k, dim=1).indices
        hits += (top == target.unsqueeze(1)).any(dim=1).sum().item()
    model.train()
    return hits / len(rows)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    walks = simulate(rng)
    train = examples(walks, range(2, LENGTH - 2))
    valid, test = examples(walks, [LENGTH - 2]), examples(walks, [LENGTH - 1])
    counts = np.bincount([t for _, t in train], minlength=ITEMS) + 1.0
    log_q = torch.from_numpy(np.log(counts / counts.sum())).float()

    model = TwoTower()
    dense = [p for name, p in model.named_parameters() if not name.startswith("items")]
    optimizers = [
        torch.optim.SparseAdam(model.items.parameters(), lr=5e-3),
        torch.optim.Adam(dense, lr=2e-3),
    ]
    batch_size, epochs, best, kept = 256, 8, -1.0, None
    for epoch in range(epochs):
        order = rng.permutation(len(train))
        running, seen = 0.0, 0
        for start in range(0, len(order) - batch_size + 1, batch_size):
            flat, offsets, target = collate([train[i] for i in order[start : start + batch_size]])
            loss = sampled_softmax(model(flat, offsets, target), target, log_q)
            for opt in optimizers:
                opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(dense, 1.0)  # the sparse table is left alone: most of its rows have no gradient
            for opt in optimizers:
                opt.step()
            running, seen = running + loss.item() * len(target), seen + len(target)
        score = recall_at(model, valid)
        print(f"epoch {epoch + 1}  loss {running / seen:.4f}  recall@10 {score:.4f}")
        if score > best:
            best, kept = score, {k: v.clone() for k, v in model.state_dict().items()}
    model.load_state_dict(kept)
    print(f"test recall@10 {recall_at(model, test):.4f}  (chance {10 / ITEMS:.4f})")


if __name__ == "__main__":
    main()
