"""The head first, then the body too."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
head = nn.Linear(24, 2)
opt_body = torch.optim.SGD(body.parameters(), lr=0.01)
opt_head = torch.optim.SGD(head.parameters(), lr=0.05)
x = torch.randn(200, 8)
y = (x[:, 0] > x[:, 1]).long()
body.requires_grad_(False)
for epoch in range(6):
    if epoch == 4:
        body.requires_grad_(True)
    for part in torch.randperm(200).split(20):
        opt_body.zero_grad()
        opt_head.zero_grad()
        loss = F.cross_entropy(head(body(x[part])), y[part])
        loss.backward()
        opt_head.step()
        opt_body.step()
    print(epoch, loss.item())
