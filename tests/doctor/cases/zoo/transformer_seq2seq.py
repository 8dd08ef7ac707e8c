import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PAD, BOS = 0, 1


class Translator(nn.Module):
    def __init__(self, vocab=16, d=16):
        super().__init__()
        self.src, self.tgt = nn.Embedding(vocab, d, padding_idx=PAD), nn.Embedding(vocab, d, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(12, d) * 0.02)
        self.transformer = nn.Transformer(d, 2, 1, 1, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(d, vocab)
        self.scale = math.sqrt(d)

    def forward(self, src, tgt):
        mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1)).bool()
        a = self.src(src) * self.scale + self.pos[: src.size(1)]
        b = self.tgt(tgt) * self.scale + self.pos[: tgt.size(1)]
        h = self.transformer(
            a, b, tgt_mask=mask, src_key_padding_mask=src == PAD, tgt_key_padding_mask=tgt == PAD,
            memory_key_padding_mask=src == PAD,
        )  # fmt: skip
        return self.out(h)


def pairs(n):
    src = torch.randint(2, 16, (n, 6))
    lengths = torch.randint(3, 7, (n, 1))
    keep = torch.arange(6) < lengths
    src = src * keep
    tgt = torch.cat([torch.full((n, 1), BOS), ((src + 3) % 14 + 2) * keep], 1)
    return TensorDataset(src, tgt)


torch.manual_seed(38)
loader = DataLoader(pairs(192), batch_size=16, shuffle=True)
valid = DataLoader(pairs(48), batch_size=16)
model = Translator()
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
for epoch in range(3):
    model.train()
    for src, tgt in loader:
        logits = model(src, tgt[:, :-1])
        loss = criterion(logits.transpose(1, 2), tgt[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    right = words = 0
    with torch.no_grad():
        for src, tgt in valid:
            guess = model(src, tgt[:, :-1]).argmax(-1)
            wanted = tgt[:, 1:]
            right += ((guess == wanted) & (wanted != PAD)).sum().item()
            words += (wanted != PAD).sum().item()
    print(epoch, loss.item(), right / words)
