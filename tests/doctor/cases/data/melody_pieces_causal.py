"""Next-note prediction, built of pieces without a class."""

import torch
from torch import nn

torch.manual_seed(3)
notes, length, width = 24, 20, 32
table = torch.softmax(torch.randn(notes, notes) * 2, 1)


def melodies(n):
    rows = [torch.randint(notes, (n, 1))]
    for _ in range(length):
        rows.append(torch.multinomial(table[rows[-1].squeeze(1)], 1))
    return torch.cat(rows, 1)


songs = melodies(480)
embed = nn.Embedding(notes, width)
place = nn.Parameter(0.02 * torch.randn(length, width))
encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True), 2)
head = nn.Linear(width, notes)
parameters = [*embed.parameters(), place, *encoder.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=2e-3)
for epoch in range(4):
    for rows in torch.randperm(len(songs)).split(32):
        batch = songs[rows]
        inputs, targets = batch[:, :-1], batch[:, 1:]
        h = encoder(embed(inputs) + place, mask=nn.Transformer.generate_square_subsequent_mask(length), is_causal=True)
        loss = nn.functional.cross_entropy(head(h).reshape(-1, notes), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
