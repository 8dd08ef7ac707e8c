# kind: numbers
# expect: nothing
# like: metric-broadcast
# why: the (N, k) list of best items is compared with an (N, 1) target on purpose: a hit is the target
#   standing anywhere in the list.
import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)
USERS, ITEMS, DIM, TOP = 240, 150, 24, 10


def interactions(seed):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(USERS, 5))
    kind = rng.normal(size=(ITEMS, 5))
    fame = 0.5 * rng.normal(size=ITEMS)
    logits = 1.3 * taste @ kind.T + fame
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    train, valid = [], []
    for u in range(USERS):
        chosen = rng.choice(ITEMS, size=31, replace=False, p=p[u])
        held = rng.integers(31)
        for k, item in enumerate(chosen):
            (valid if k == held else train).append((u, item))
    return torch.tensor(train), torch.tensor(valid)


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.item = nn.Embedding(ITEMS, DIM)
        self.fame = nn.Parameter(torch.zeros(ITEMS))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=DIM ** -0.5)

    def forward(self, user):
        return self.user(user) @ self.item.weight.T + self.fame


def softmax_nll(scores, item):
    top = scores.max(dim=1, keepdim=True).values
    log_norm = top.squeeze(1) + (scores - top).exp().sum(dim=1).log()
    return (log_norm - scores.gather(1, item.unsqueeze(1)).squeeze(1)).mean()


def rank_metrics(model, train, valid):
    seen = torch.zeros(USERS, ITEMS, dtype=torch.bool)
    seen[train[:, 0], train[:, 1]] = True
    model.eval()
    with torch.no_grad():
        user, item = valid[:, 0], valid[:, 1]
        scores = model(user).masked_fill(seen[user], -1e9)
        best = scores.topk(TOP, dim=1).indices
        found = best == item.unsqueeze(1)
        hit = found.any(dim=1).float().mean().item()
        gain = (found / torch.log2(torch.arange(TOP) + 2.0)).sum(dim=1).mean().item()
    return hit, gain


if __name__ == "__main__":
    torch.manual_seed(42)
    train, valid = interactions(seed=420)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-5)
    for epoch in range(6):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(90):
            user, item = train[idx].unbind(1)
            loss = softmax_nll(model(user), item)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(idx)
        hit, gain = rank_metrics(model, train, valid)
        print(f"epoch {epoch}  nll {total / len(train):.4f}  hit@{TOP} {hit:.3f}  ndcg@{TOP} {gain:.3f}")
