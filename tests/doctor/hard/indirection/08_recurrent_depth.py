# kind: behind indirection
# expect: nothing
# like: layer-shared-by-accident
# why: one transformer cell is applied four times on purpose (universal transformer): the loop names the depth, each
#      round has its own depth embedding, and nothing pretends that there are four layers.
"""Set parity-of-majority task with a universal transformer: one cell, several rounds."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F


class Cell(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.heads = heads

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.n1(x))
        return x + self.ff(self.n2(x))


class Universal(nn.Module):
    def __init__(self, vocab, dim, rounds):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.depth = nn.Parameter(0.1 * torch.randn(rounds, dim))
        self.cell = Cell(dim, 4)
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab)

    def forward(self, tok):
        h = self.embed(tok)
        for d in self.depth:
            h = self.cell(h + d)
        return self.head(self.norm(h.mean(1)))


def majority(n, length, vocab):
    """A bag of symbols in which one symbol is drawn more often; the label is that symbol."""
    y = torch.randint(0, vocab, (n,))
    tok = torch.randint(0, vocab, (n, length))
    tok = torch.where(torch.rand(n, length) < 0.30, y[:, None], tok)
    return tok, y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=4)
    ap.add_argument("--epochs", type=int, default=5)
    args = ap.parse_args()
    torch.manual_seed(8)
    torch.set_num_threads(1)
    x, y = majority(2560, 18, 10)
    xv, yv = majority(512, 18, 10)
    model = Universal(10, 32, args.rounds)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(32):
            opt.zero_grad()
            loss = F.cross_entropy(model(x[idx]), y[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean().item()
        print(f"epoch {epoch} loss {total / len(x):.4f} valid acc {acc:.3f}")


if __name__ == "__main__":
    main()
