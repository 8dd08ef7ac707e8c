# kind: without a DataLoader
# expect: train-valid-overlap
# why: prepare() oversamples the rare class before the random split, so copies of the same rare rows sit in both the training and the validation indices; the validation recall used for early stopping and reported is far too good.
"""Rare-event classifier on noisy tabular data: balance, split, train with early stopping on validation recall."""
import copy

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
SEED = 17
torch.manual_seed(SEED)


def simulate(n, rng):
    x = rng.normal(size=(n, 30))
    score = 0.9 * x[:, 0] - 0.7 * x[:, 1] + 0.5 * x[:, 2] * x[:, 3] + 1.2 * rng.normal(size=n)
    y = (score > np.quantile(score, 0.93)).astype("float32")
    return x.astype("float32"), y


def prepare(x, y, rng, valid_share=0.2):
    rare, common = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    drawn = rng.choice(rare, size=len(common), replace=True)
    rows = rng.permutation(np.concatenate([common, drawn]))
    cut = int(len(rows) * (1 - valid_share))
    train, valid = rows[:cut], rows[cut:]
    mean, std = x[train].mean(0), x[train].std(0)
    x = (x - mean) / std
    return tuple(torch.from_numpy(a) for a in (x[train], y[train], x[valid], y[valid])), (mean, std)


def batches(n, size, generator):
    order = torch.randperm(n, generator=generator)
    for start in range(0, n - size + 1, size):
        yield order[start:start + size]


@torch.no_grad()
def scores(model, x, y):
    model.eval()
    hit = (model(x).squeeze(1) > 0).float()
    recall = (hit * y).sum() / y.sum()
    special = ((1 - hit) * (1 - y)).sum() / (1 - y).sum()
    return recall.item(), special.item()


def main():
    rng = np.random.default_rng(SEED)
    (xt, yt, xv, yv), (mean, std) = prepare(*simulate(2500, rng), rng)
    model = nn.Sequential(nn.Linear(30, 96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    generator = torch.Generator().manual_seed(SEED)
    best, best_state = -1.0, None
    for epoch in range(12):
        model.train()
        total, count = 0.0, 0
        for idx in batches(len(xt), 128, generator):
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(xt[idx]).squeeze(1), yt[idx])
            loss.backward()
            optimizer.step()
            total, count = total + loss.item(), count + 1
        recall, special = scores(model, xv, yv)
        if recall + special > best:
            best, best_state = recall + special, copy.deepcopy(model.state_dict())
        if epoch % 3 == 2:
            print(f"epoch {epoch + 1:2d} loss {total / count:.3f} valid recall {recall:.3f} specificity {special:.3f}")
    model.load_state_dict(best_state)
    print(f"selected model: balanced accuracy {best / 2:.3f}")


if __name__ == "__main__":
    main()
