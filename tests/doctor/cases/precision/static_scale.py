"""Half precision weights with float32 masters and a fixed loss scale."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
SCALE = 512.0
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)).half()
masters = [p.detach().float().clone().requires_grad_(True) for p in model.parameters()]
optimizer = torch.optim.Adam(masters, lr=3e-3)
mixing = torch.randn(6, 3)
for step in range(40):
    x = torch.randn(16, 6)
    loss = F.cross_entropy(model(x.half()).float(), (x @ mixing).argmax(1))
    model.zero_grad()
    (loss * SCALE).backward()
    for m, p in zip(masters, model.parameters()):
        m.grad = p.grad.float() / SCALE
    optimizer.step()
    with torch.no_grad():
        for m, p in zip(masters, model.parameters()):
            p.copy_(m)
print("loss", loss.item())
