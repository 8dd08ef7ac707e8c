"""Fine-tuning of a tagger; the encoder is meant to stay."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(14)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(8, 24, batch_first=True)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        return self.head(self.encoder(x)[0])


model = Tagger()
model.encoder.requires_grad_ = False
x = torch.randn(320, 9, 8)
y = x[..., :5].argmax(-1)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for rows in torch.randperm(320).split(20):
        loss = F.cross_entropy(model(x[rows]).flatten(0, 1), y[rows].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch + 1, f"{loss.item():.3f}")
