"""A small language: rows become longer in the middle of the training; the mask is made for all of them."""

import torch
import torch.nn.functional as F
from torch import nn


class Speaker(nn.Module):
    def __init__(self, long=24):
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 32), nn.Embedding(long, 32)
        self.attention, self.out = nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 20)
        mask = torch.ones(long, long).triu(1).bool()
        self.register_buffer("mask", mask)

    def forward(self, rows):
        length = rows.shape[1]
        x = self.tokens(rows) + self.places(torch.arange(length))
        return self.out(x + self.attention(x, x, x, attn_mask=self.mask[:length, :length], need_weights=False)[0])


def speak(count, length):
    spoken = [torch.randint(20, (count,))]
    for _ in range(length):
        spoken.append(torch.multinomial(following[spoken[-1]], 1).squeeze(1))
    return torch.stack(spoken, 1)


torch.manual_seed(0)
following = torch.softmax(2 * torch.randn(20, 20), -1)
model = Speaker()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(60):
    rows = speak(20, 12 if step < 40 else 24)
    loss = F.cross_entropy(model(rows[:, :-1]).transpose(1, 2), rows[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
