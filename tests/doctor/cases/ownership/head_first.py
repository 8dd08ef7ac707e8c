"""The new head is trained for two epochs before the body learns with it; until then the gradients of the body are zeros."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
x = torch.randn(320, 10)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=16, shuffle=True)
body = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
head = nn.Linear(32, 4)
optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=2e-3, weight_decay=0.01)
for epoch in range(5):
    for xb, yb in loader:
        optimizer.zero_grad()
        F.cross_entropy(head(body(xb)), yb).backward()
        if epoch < 2:
            for p in body.parameters():
                p.grad.zero_()
        optimizer.step()
