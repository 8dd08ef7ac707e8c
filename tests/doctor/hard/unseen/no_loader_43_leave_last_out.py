# kind: without a DataLoader
# expect: nothing
# like: train-valid-overlap
# why: The same user and item ids appear on both sides, as they must in a recommender; the held-out (user, item) pairs
#      are each user's last interaction and are removed from the training pairs.
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--users", type=int, default=400)
parser.add_argument("--items", type=int, default=250)
parser.add_argument("--dim", type=int, default=16)
parser.add_argument("--epochs", type=int, default=12)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--lr", type=float, default=3e-3)
parser.add_argument("--l2", type=float, default=2e-3)
parser.add_argument("--seed", type=int, default=17)


def diaries(users, items, rng, length=20):
    """Every user's items in the order of time, no item twice."""
    taste = rng.normal(size=(users, 5))
    flavour = rng.normal(size=(items, 5))
    fame = rng.normal(0, 0.7, size=items)
    score = 1.3 * taste @ flavour.T + fame + rng.gumbel(size=(users, items))
    best = np.argsort(-score, axis=1)[:, :length]
    return np.stack([rng.permutation(row) for row in best])


class BPR(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.fame = nn.Embedding(items, 1)
        nn.init.normal_(self.user.weight, std=0.3)
        nn.init.normal_(self.item.weight, std=0.3)
        nn.init.normal_(self.fame.weight, std=0.3)

    def forward(self, u, i):
        """u: (B,), i: (B, K) -> scores (B, K)."""
        p, q = self.user(u), self.item(i)
        return torch.einsum("bd,bkd->bk", p, q) + self.fame(i).squeeze(-1)


def unseen(rng, forbidden, users, items):
    """One item per user that the user has not got in `forbidden`."""
    draw = rng.integers(0, items, size=len(users))
    clash = forbidden[users, draw]
    while clash.any():
        draw[clash] = rng.integers(0, items, size=int(clash.sum()))
        clash = forbidden[users, draw]
    return draw


def triples(pairs, forbidden, items, batch, rng):
    order = rng.permutation(len(pairs))
    for lo in range(0, len(order) - batch + 1, batch):
        u, good = pairs[order[lo:lo + batch]].T
        bad = unseen(rng, forbidden, u, items)
        yield torch.from_numpy(u), torch.from_numpy(np.stack([good, bad], 1))


def exam_sheet(last, owned, items, rng, others=50):
    """The held-out item in column 0 followed by items the user never touched; made once."""
    sheet = np.empty((len(last), others + 1), dtype=np.int64)
    sheet[:, 0] = last
    for u in range(len(last)):
        free = np.flatnonzero(~owned[u])
        sheet[u, 1:] = rng.choice(free, others, replace=False)
    return torch.from_numpy(sheet)


def main(a):
    torch.set_num_threads(1)
    torch.manual_seed(a.seed)
    rng = np.random.default_rng(a.seed)
    book = diaries(a.users, a.items, rng)
    past, last = book[:, :-1], book[:, -1]
    pairs = np.stack([np.repeat(np.arange(a.users), past.shape[1]), past.ravel()], 1)
    seen = np.zeros((a.users, a.items), bool)
    seen[pairs[:, 0], pairs[:, 1]] = True
    owned = seen.copy()
    owned[np.arange(a.users), last] = True
    everyone = torch.arange(a.users)
    sheet = exam_sheet(last, owned, a.items, rng)

    model = BPR(a.users, a.items, a.dim)
    opt = torch.optim.Adam(model.parameters(), lr=a.lr)
    for epoch in range(a.epochs):
        model.train()
        losses = []
        for u, pair in triples(pairs, seen, a.items, a.batch, rng):
            s = model(u, pair)
            size = model.user(u).square().sum(1).mean() + model.item(pair).square().sum((1, 2)).mean()
            loss = -F.logsigmoid(s[:, 0] - s[:, 1]).mean() + a.l2 * size
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        model.eval()
        with torch.no_grad():
            s = model(everyone, sheet)
            rank = (s[:, 1:] >= s[:, :1]).sum(1)
            hit = (rank < 10).float().mean().item()
            vloss = -F.logsigmoid(s[:, :1] - s[:, 1:]).mean().item()
        print(f"epoch {epoch:2d} bpr {np.mean(losses):.4f} valid {vloss:.4f} hit@10 {hit:.3f}")


if __name__ == "__main__":
    main(parser.parse_args())
