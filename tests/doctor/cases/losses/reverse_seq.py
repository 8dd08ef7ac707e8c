import random

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD, BOS, EOS, VOCAB = 0, 1, 2, 20


class Words(Dataset):
    def __init__(self, n, seed):
        rng = random.Random(seed)
        self.rows = [[rng.randint(3, VOCAB - 1) for _ in range(rng.randint(3, 10))] for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        return torch.tensor(row), torch.tensor([BOS, *reversed(row), EOS])


def collate(items):
    src, tgt = zip(*items)
    return pad_sequence(src, batch_first=True, padding_value=PAD), pad_sequence(tgt, batch_first=True, padding_value=PAD)


class Seq2Seq(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, src, tgt):
        _, h = self.encoder(self.emb(src))
        y, _ = self.decoder(self.emb(tgt), h)
        return self.out(y)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Words(320, 5), batch_size=32, shuffle=True, collate_fn=collate)
    model = Seq2Seq()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        for src, tgt in loader:
            logits = model(src, tgt[:, :-1])
            loss = criterion(logits.reshape(-1, VOCAB), tgt[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
