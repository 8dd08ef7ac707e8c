# the head's optimizer has nothing to do in the first phase and everything in the second
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(6, 8), nn.Linear(8, 2)
ob, oh = torch.optim.Adam(body.parameters(), 1e-2), torch.optim.Adam(head.parameters(), 1e-2)
for i in range(80):
    x = torch.randn(16, 6)
    y = (x[:, 0] > 0).long()
    ob.zero_grad()
    oh.zero_grad()
    h = body(x)
    if i < 60:
        loss = (h.mean(0) ** 2).sum() + ((h.std(0) - 1) ** 2).sum()
    else:
        loss = nn.functional.cross_entropy(head(h), y)
    loss.backward()
    ob.step()
    oh.step()
