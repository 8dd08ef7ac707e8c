import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(1)
experts = [nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1)) for _ in range(3)]
mixer = nn.Linear(4, 3)
params = itertools.chain(mixer.parameters(), *(e.parameters() for e in experts))
optimizer = torch.optim.Adam(params, lr=5e-3)


def forward(x):
    weights = mixer(x).softmax(-1)
    return (torch.cat([e(x) for e in experts], dim=1) * weights).sum(1)


x = torch.randn(200, 4)
y = torch.where(x[:, 0] > 0, x[:, 1], x[:, 2])
for epoch in range(4):
    for pick in torch.randperm(200).split(20):
        loss = F.mse_loss(forward(x[pick]), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
