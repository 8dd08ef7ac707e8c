# kind: numbers
# expect: targets-out-of-range
# why: the multi-hot targets are built with scatter_add_; authors repeat keywords, so a target is 2 or 3 where a tag occurs several times, outside the 0..1 that binary cross entropy needs, and the probabilities of such tags are pushed to 1.
"""Keyword prediction for papers from bag-of-concept features, calibrated probabilities wanted."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
torch.manual_seed(15)
FEATS, TAGS, SLOTS, PAD = 50, 24, 8, -1


class Papers(Dataset):
    """Each paper has up to SLOTS free-text keywords, already mapped to tag ids (several spellings, one id)."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        weights = np.random.default_rng(0).standard_normal((FEATS, TAGS)) * 0.45
        self.x = rng.standard_normal((n, FEATS)).astype(np.float32)
        prob = 1 / (1 + np.exp(-(self.x @ weights - 2.0)))
        has = rng.random((n, TAGS)) < prob
        self.tags = np.full((n, SLOTS), PAD, dtype=np.int64)
        for i in range(n):
            owned = np.flatnonzero(has[i])
            rng.shuffle(owned)
            spelled = np.repeat(owned, rng.integers(1, 4, len(owned)))[:SLOTS]
            self.tags[i, :len(spelled)] = spelled

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.tags[i]


def multi_hot(tags):
    present = tags.ne(PAD)
    hot = torch.zeros(len(tags), TAGS)
    return hot.scatter_add_(1, tags.clamp(min=0), present.float())


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATS, 96), nn.GELU(), nn.Dropout(0.1), nn.Linear(96, TAGS))
        nn.init.constant_(self.net[-1].bias, -1.5)

    def forward(self, x):
        return self.net(x)


def train_epoch(model, loader, opt):
    model.train()
    total = rows = 0
    for x, tags in loader:
        loss = F.binary_cross_entropy_with_logits(model(x), multi_hot(tags))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.item() * len(x)
        rows += len(x)
    return total / rows


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    brier = rate = said = n = 0
    for x, tags in loader:
        p = model(x).sigmoid()
        t = multi_hot(tags) > 0
        brier += (p - t.float()).square().sum().item()
        rate += t.sum().item()
        said += p.sum().item()
        n += t.numel()
    return brier / n, said / rate


def main():
    train = DataLoader(Papers(4000, 1), batch_size=80, shuffle=True)
    valid = DataLoader(Papers(1000, 2), batch_size=250)
    model = Tagger()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    for epoch in range(6):
        loss = train_epoch(model, train, opt)
        brier, ratio = evaluate(model, valid)
        print(f"epoch {epoch} loss {loss:.4f} brier {brier:.4f} predicted/true tags {ratio:.2f}")


main()
