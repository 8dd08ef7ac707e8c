"""Reverse a sequence with an encoder-decoder transformer."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

BOS, VOCAB = 1, 14


class Reversal(Dataset):
    def __init__(self, n, length):
        self.src = torch.randint(2, VOCAB, (n, length))
        self.tgt = torch.cat([torch.full((n, 1), BOS), self.src.flip(1)], dim=1)

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        return self.src[i], self.tgt[i]


class Seq2Seq(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.src_emb = nn.Embedding(VOCAB, d)
        self.tgt_emb = nn.Embedding(VOCAB, d)
        self.pos = nn.Parameter(0.1 * torch.randn(1, 12, d))
        self.transformer = nn.Transformer(d, 2, 1, 1, 48, dropout=0.0, batch_first=True)
        self.out = nn.Linear(d, VOCAB)

    def forward(self, src, tgt):
        s = self.src_emb(src) + self.pos[:, : src.size(1)]
        t = self.tgt_emb(tgt) + self.pos[:, : tgt.size(1)]
        return self.out(self.transformer(s, t))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Reversal(240, 6), batch_size=20, shuffle=True)
    model = Seq2Seq()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(3):
        model.train()
        for src, tgt in loader:
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.reshape(-1, VOCAB), tgt[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
