# kind: behind indirection
# expect: nothing
# like: lambda-absolute-lr
# why: the lambda returns numbers like 0.001, that is, learning rates, but the optimizer's lr is 1.0, so the product is
#      that rate (the usual way to write the Noam schedule).
"""Character-level language model with the warm-up / inverse-root schedule of the transformer paper."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR


def noam(dim, warmup, scale):
    def rate(step):
        step = step + 1
        return scale * dim ** -0.5 * min(step ** -0.5, step * warmup ** -1.5)
    return rate


class CharLM(nn.Module):
    def __init__(self, vocab, dim, length, depth=2):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(length, dim)
        layer = lambda: nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.ModuleList(layer() for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, vocab)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length))

    def forward(self, x):
        t = x.shape[1]
        h = self.tok(x) + self.pos(torch.arange(t))
        for layer in self.layers:
            h = layer(h, src_mask=self.mask[:t, :t], is_causal=True)
        return self.head(self.norm(h))


def words(n, length, g):
    """Lines of words from a small lexicon, separated by 0."""
    lex = [torch.randint(1, 16, (int(k),), generator=torch.Generator().manual_seed(int(i))) for i, k in enumerate(torch.arange(3, 15))]
    need, out, stream = n * (length + 1), [], 0
    while stream < need:
        w = lex[int(torch.randint(0, len(lex), (1,), generator=g))]
        out += [w, torch.zeros(1, dtype=torch.long)]
        stream += len(w) + 1
    return torch.cat(out)[:need].view(n, length + 1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dim", type=int, default=32)
    ap.add_argument("--warmup", type=int, default=80)
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()
    torch.manual_seed(16)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(160)
    train, valid = words(1600, 24, g), words(200, 24, g)
    model = CharLM(16, args.dim, 24)
    opt = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    sched = LambdaLR(opt, noam(args.dim, args.warmup, scale=0.12))
    nll = lambda b: F.cross_entropy(model(b[:, :-1]).flatten(0, 1), b[:, 1:].flatten())
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(train)).split(20):
            opt.zero_grad()
            loss = nll(train[idx])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = nll(valid).item()
        print(f"epoch {epoch} train {total / len(train):.4f} valid {v:.4f} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
