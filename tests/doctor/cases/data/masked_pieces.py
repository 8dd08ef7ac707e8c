"""Masked tokens are restored; built of pieces."""

import torch
from torch import nn

torch.manual_seed(3)
words, length, width = 24, 20, 32
rows = torch.randint(words, (400, 10))
text = torch.cat([rows, (rows * 5 + 1) % words], 1)
embed, head = nn.Embedding(words + 1, width), nn.Linear(width, words)
place = nn.Parameter(0.02 * torch.randn(length, width))
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True), 2)
optimizer = torch.optim.Adam([*embed.parameters(), place, *encoder.parameters(), *head.parameters()], lr=2e-3)
for epoch in range(4):
    for picked in torch.randperm(400).split(25):
        batch = text[picked]
        hidden = torch.rand(batch.shape) < 0.2
        inputs = batch.masked_fill(hidden, words)
        logits = head(encoder(embed(inputs) + place))
        loss = nn.functional.cross_entropy(logits[hidden], batch[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
