"""Merge pretrained weights kept in memory into a larger model's own dictionary."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(23)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(30, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 30)

    def forward(self, t):
        return self.out(self.rnn(self.embed(t))[0])


class Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.lm = Small()
        self.head = nn.Linear(24, 2)

    def forward(self, t):
        return self.head(self.lm.rnn(self.lm.embed(t))[0].mean(1))


text = torch.randint(30, (300, 14))
text[:, 1::2] = (text[:, ::2] * 7 + 3) % 30
lm = Small()
optimizer = torch.optim.Adam(lm.parameters(), lr=3e-3)
for rows in (r for _ in range(4) for r in torch.randperm(300).split(30)):
    loss = F.cross_entropy(lm(text[rows][:, :-1]).flatten(0, 1), text[rows][:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = {k: v.clone() for k, v in lm.state_dict().items()}

model = Sentiment()
own = model.state_dict()
own.update({k: v for k, v in weights.items() if k in own})
model.load_state_dict(own)
labels = (text.float().mean(1) > 15).long()
optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-2)
model.lm.requires_grad_(False)
for epoch in range(4):
    for rows in torch.randperm(300).split(30):
        loss = F.cross_entropy(model(text[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
