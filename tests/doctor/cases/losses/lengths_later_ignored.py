"""Counting by strides: sequences of one length at first, then of all lengths; the loss ignores the padding."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def strides(count, low, high):
    found = []
    for _ in range(count):
        length = int(torch.randint(low, high + 1, ()))
        found.append(1 + (torch.randint(0, 11, ()) + torch.randint(1, 4, ()) * torch.arange(length)) % 11)
    return found


def collate(items):
    return pad_sequence(items, batch_first=True)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


torch.manual_seed(0)
model = Counting()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for low, high in ((8, 8), (4, 14)):
    loader = DataLoader(strides(160, low, high), batch_size=8, shuffle=True, collate_fn=collate)
    for epoch in range(2):
        for tokens in loader:
            logits = model(tokens[:, :-1])
            optimizer.zero_grad()
            F.cross_entropy(logits.reshape(-1, 12), tokens[:, 1:].reshape(-1), ignore_index=0).backward()
            optimizer.step()
