"""float32 weights, bfloat16 compute, a very small learning rate."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
mixing = torch.randn(8, 3)
for step in range(48):
    x = torch.randn(32, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x), (x @ mixing).argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
