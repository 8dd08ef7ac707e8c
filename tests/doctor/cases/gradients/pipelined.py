"""The update with the gradients of the last batch happens while the next one is fetched."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
mixing = torch.randn(6, 3)


def fetch():
    x = torch.randn(16, 6)
    return x, (x @ mixing).argmax(1)


pending = False
for step in range(40):
    x, y = fetch()
    if pending:
        optimizer.step()
        optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    pending = True
optimizer.step()
print("loss", loss.item())
