"""Peptide activity from amino-acid tokens, minibatches by index."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(7)
tokens = torch.randint(1, 21, (1200, 24))
weights = torch.randn(21)
y = (weights[tokens].sum(1) + torch.randn(1200) > 0).float()
train_rows, valid_rows = torch.arange(0, 900), torch.arange(900, 1200)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(21, 16)
        self.conv = nn.Conv1d(16, 32, 3, padding=1)
        self.out = nn.Linear(32, 1)

    def forward(self, t):
        h = F.relu(self.conv(self.embed(t).transpose(1, 2)))
        return self.out(h.mean(2)).squeeze(1)


model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for epoch in range(8):
    model.train()
    for idx in train_rows[torch.randperm(len(train_rows))].split(60):
        loss = F.binary_cross_entropy_with_logits(model(tokens[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(tokens[valid_rows])
        valid = F.binary_cross_entropy_with_logits(logits, y[valid_rows]).item()
        right = ((logits > 0).float() == y[valid_rows]).float().mean().item()
    print(epoch + 1, f"{loss.item():.3f} {valid:.3f} {right:.3f}")
