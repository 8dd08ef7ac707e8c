# kind: without a DataLoader
# expect: nothing
# like: padding-in-loss
# why: sessions are padded with item 0 and cross-entropy is taken at all positions without ignore_index, but per position and
#      multiplied with the mask of real targets, then divided by their number: padding has no weight.
"""Next-item recommendation from ragged sessions; the batches are padded and masked by hand."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F

ITEMS = 60


def sessions(n, g, jump):
    length = torch.randint(4, 20, (n,), generator=g)
    out = []
    for l in length.tolist():
        s = [int(torch.randint(1, ITEMS, (1,), generator=g))]
        u = torch.rand(l, generator=g).tolist()
        for k in range(l):
            s.append(int(jump[s[-1]]) if u[k] < 0.8 else int(torch.randint(1, ITEMS, (1,), generator=g)))
        out.append(torch.tensor(s))
    return out


def pad(batch):
    width = max(map(len, batch))
    tok = torch.zeros(len(batch), width, dtype=torch.long)
    for row, s in zip(tok, batch):
        row[:len(s)] = s
    lengths = torch.tensor([len(s) for s in batch])
    mask = torch.arange(1, width)[None] < lengths[:, None]
    return tok[:, :-1], tok[:, 1:], mask.float()


class Recommender(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.items = nn.Embedding(ITEMS, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, ITEMS)

    def forward(self, tok):
        return self.out(self.rnn(self.items(tok))[0])


def masked_nll(logits, target, mask):
    each = F.cross_entropy(logits.transpose(1, 2), target, reduction="none")
    return (each * mask).sum() / mask.sum()


@torch.no_grad()
def hit_rate(model, data):
    model.eval()
    x, y, mask = pad(data)
    hit = (model(x).argmax(-1) == y).float() * mask
    return (hit.sum() / mask.sum()).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch", type=int, default=40)
    args = ap.parse_args()
    torch.manual_seed(123)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1230)
    jump = torch.randint(1, ITEMS, (ITEMS,), generator=g)
    train, valid = sessions(1600, g, jump), sessions(300, g, jump)
    model = Recommender(48)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        model.train()
        total = tokens = 0.0
        for idx in torch.randperm(len(train)).split(args.batch):
            x, y, mask = pad([train[i] for i in idx.tolist()])
            opt.zero_grad()
            loss = masked_nll(model(x), y, mask)
            loss.backward()
            opt.step()
            total += loss.item() * mask.sum().item()
            tokens += mask.sum().item()
        print(f"epoch {epoch} loss {total / tokens:.4f} valid hit rate {hit_rate(model, valid):.3f}")


if __name__ == "__main__":
    main()
