# kind: numbers
# expect: padding-in-loss
# why: the hand-written token NLL takes the mean over all positions including the padded ones, whose tag is the filler
#      0; about 45 % of the positions are padding.
"""Fields of a bibliographic reference (authors, year, title...), bidirectional GRU."""

import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

PAD, TAGS, WORDS = 0, 6, 150


def references(n, seed):
    g = torch.Generator().manual_seed(seed)

    def r(lo, hi):
        return int(torch.randint(lo, hi, (1,), generator=g))

    data = []
    for _ in range(n):
        words, tags = [], []
        for tag in range(1, TAGS):
            for _ in range(r(0, 4) if r(0, 3) else 1):
                base = 1 + 25 * (tag - 1)
                words.append(r(base, base + 25) if r(0, 10) else r(1, WORDS))
                tags.append(tag)
        words, tags = words or [1], tags or [1]
        for _ in range(r(0, 2) * 14):
            words.append(r(1, 26))
            tags.append(1)
        data.append((torch.tensor(words), torch.tensor(tags)))
    return data


def collate(batch):
    words, tags = zip(*batch)
    return pad_sequence(words, batch_first=True, padding_value=PAD), pad_sequence(tags, batch_first=True)


class Parser(nn.Module):
    def __init__(self, dim=32, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(WORDS, dim, padding_idx=PAD)
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, TAGS)

    def forward(self, words):
        lengths = (words != PAD).sum(1)
        packed = pack_padded_sequence(self.emb(words), lengths, batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=words.shape[1])
        return self.out(h)


def token_nll(logits, tags):
    logp = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
    picked = logp.gather(-1, tags.unsqueeze(-1)).squeeze(-1)
    return -picked.mean()


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits = n = 0
    for words, tags in loader:
        real = words != PAD
        hits += ((model(words).argmax(-1) == tags) & real).sum().item()
        n += real.sum().item()
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(136)
    train = DataLoader(references(1536, 1), batch_size=48, shuffle=True, collate_fn=collate)
    valid = DataLoader(references(384, 2), batch_size=96, collate_fn=collate)
    model = Parser()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for words, tags in train:
            loss = token_nll(model(words), tags)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} token accuracy {accuracy(model, valid):.3f}")


if __name__ == "__main__":
    main()
