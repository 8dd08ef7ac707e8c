# kind: without a DataLoader
# expect: padding-in-loss
# why: sequences of 5 to 30 characters are padded to the longest of the batch and the padded positions, labelled 0, count in
#      the cross-entropy: about 40 % of the counted positions are padding, and the loss looks better than it is.
"""Translating symbol strings to digit strings character by character; batches are padded by a generator."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

PAD, SYMBOLS = 0, 20


def cipher(tok):
    """Digit 1..9 from a symbol and its left neighbour."""
    left = torch.cat([tok.new_zeros(1), tok[:-1]])
    return (tok * 3 + left) % 9 + 1


def examples(n, g):
    out = []
    for length in torch.randint(5, 31, (n,), generator=g).tolist():
        tok = torch.randint(1, SYMBOLS, (length,), generator=g)
        out.append((tok, cipher(tok)))
    return out


def batches(data, size, shuffle):
    order = torch.randperm(len(data)) if shuffle else torch.arange(len(data))
    for idx in order.split(size):
        xs, ys = zip(*(data[i] for i in idx.tolist()))
        yield pad_sequence(xs, batch_first=True, padding_value=PAD), pad_sequence(ys, batch_first=True, padding_value=PAD)


class Transducer(nn.Module):
    def __init__(self, dim, h):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS, dim)
        self.rnn = nn.GRU(dim, h, batch_first=True)
        self.out = nn.Linear(h, 10)

    def forward(self, tok):
        return self.out(self.rnn(self.embed(tok))[0])


@torch.no_grad()
def accuracy(model, data, size):
    model.eval()
    hits = n = 0
    for x, y in batches(data, size, shuffle=False):
        real = x != PAD
        hits += (model(x).argmax(-1) == y)[real].sum().item()
        n += real.sum().item()
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()
    torch.manual_seed(122)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1220)
    train, valid = examples(1920, g), examples(320, g)
    model = Transducer(24, 48)
    opt = torch.optim.Adam(model.parameters(), lr=4e-3)
    for epoch in range(args.epochs):
        model.train()
        losses = []
        for x, y in batches(train, args.batch, shuffle=True):
            opt.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print(f"epoch {epoch} loss {sum(losses) / len(losses):.4f} valid character acc {accuracy(model, valid, args.batch):.3f}")


if __name__ == "__main__":
    main()
