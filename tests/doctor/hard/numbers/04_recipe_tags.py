# kind: numbers
# expect: nothing
# like: frozen-parameter-moves
# why: the embedding is frozen half way and stays in an AdamW with decay and moments, but zero_grad sets its .grad to
#      None, so AdamW skips it altogether and it stands still.
"""Tags for recipes: word vectors learn for some epochs, then only the classifier does."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB, TAGS = 400, 8


class Recipes(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.words = torch.randint(TAGS * 20, VOCAB, (n, 24), generator=g)
        self.tags = (torch.rand(n, TAGS, generator=g) < 0.3).float()
        spot = torch.rand(n, 24, generator=g).argsort(1)
        hint = torch.randint(0, 20, (n, TAGS), generator=g) + 20 * torch.arange(TAGS)
        for t in range(TAGS):
            rows = self.tags[:, t].bool()
            self.words[rows, spot[rows, t]] = hint[rows, t]

    def __len__(self):
        return len(self.words)

    def __getitem__(self, i):
        return self.words[i], self.tags[i]


class Tagger(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim)
        nn.init.normal_(self.words.weight, std=0.2)
        self.mix = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, TAGS))

    def forward(self, w):
        e = self.words(w)
        return self.mix(e.sum(1))


def f1(model, loader):
    model.eval()
    tp = fp = fn = 0
    with torch.no_grad():
        for w, t in loader:
            guess, truth = model(w) > 0, t > 0.5
            tp += (guess & truth).sum().item()
            fp += (guess & ~truth).sum().item()
            fn += (~guess & truth).sum().item()
    return 2 * tp / max(1, 2 * tp + fp + fn)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=14)
    ap.add_argument("--freeze-at", type=int, default=9)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(35)
    train = DataLoader(Recipes(3072, 1), batch_size=64, shuffle=True)
    valid = DataLoader(Recipes(768, 2), batch_size=256)
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        if epoch == args.freeze_at:
            model.words.requires_grad_(False)
            print("word vectors frozen")
        model.train()
        total = 0.0
        for w, t in train:
            loss = criterion(model(w), t)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch:2d} loss {total / len(train):.4f} f1 {f1(model, valid):.3f} "
              f"|words| {model.words.weight.norm().item():.4f}")


if __name__ == "__main__":
    main()
