# kind: without a DataLoader
# expect: nothing
# like: accumulation-not-divided
# why: the accumulated losses are sums over tokens, and before the step all gradients are divided by the number of tokens
#      of the whole cycle, which is the exact mean over tokens of unequal micro-batches.
"""Language model on sentences of unequal length: token-exact gradient accumulation over a generator."""
import argparse
import itertools
import torch
from torch import nn
import torch.nn.functional as F

VOCAB = 24


def grammar(seed):
    g = torch.Generator().manual_seed(seed)
    return torch.softmax(2.0 * torch.randn(VOCAB, VOCAB, generator=g), 1)


def sentences(table, per, seed):
    """Endless micro-batches; all sentences of one micro-batch have the same length, which differs between them."""
    g = torch.Generator().manual_seed(seed)
    while True:
        length = int(torch.randint(6, 28, (1,), generator=g))
        tok = [torch.randint(0, VOCAB, (per,), generator=g)]
        for _ in range(length):
            tok.append(torch.multinomial(table[tok[-1]], 1, generator=g).squeeze(1))
        yield torch.stack(tok, 1)


class LM(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(VOCAB, dim), nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, tok):
        return self.out(self.rnn(self.embed(tok))[0])


def nll(model, tok):
    return F.cross_entropy(model(tok[:, :-1]).flatten(0, 1), tok[:, 1:].flatten(), reduction="sum"), tok[:, 1:].numel()


def cycle(model, opt, micro):
    opt.zero_grad()
    total = tokens = 0
    for tok in micro:
        loss, n = nll(model, tok)
        loss.backward()
        total += loss.item()
        tokens += n
    for p in model.parameters():
        p.grad.div_(tokens)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    return total / tokens


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=200)
    ap.add_argument("--accumulate", type=int, default=4)
    args = ap.parse_args()
    torch.manual_seed(108)
    torch.set_num_threads(1)
    table = grammar(1080)
    stream = sentences(table, 12, seed=1)
    held = list(itertools.islice(sentences(table, 12, seed=2), 20))
    model = LM(48)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    run = []
    for step in range(1, args.steps + 1):
        model.train()
        run.append(cycle(model, opt, itertools.islice(stream, args.accumulate)))
        if step % 25 == 0:
            model.eval()
            with torch.no_grad():
                parts = [nll(model, tok) for tok in held]
            v = sum(l.item() for l, _ in parts) / sum(n for _, n in parts)
            print(f"step {step} train {sum(run[-25:]) / 25:.4f} held-out {v:.4f}")


if __name__ == "__main__":
    main()
