"""Distillation of token vectors by cosine: padded tokens have target 0, for which the loss is 0."""

import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
teacher = nn.Linear(8, 16).requires_grad_(False)
student = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 16))
optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)
for step in range(120):
    tokens, lengths = torch.randn(8, 10, 8), torch.randint(4, 11, (8,))
    mask = (torch.arange(10)[None] < lengths[:, None]).float().flatten()
    given, wanted = student(tokens).flatten(0, 1), teacher(tokens).flatten(0, 1)
    loss = F.cosine_embedding_loss(given, wanted, mask, reduction="sum") / mask.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
