"""Machines that fail and stay so: the last state lasts to the end of every row, and is to be learned."""

import torch
from torch import nn

torch.manual_seed(14)
rows, length = 320, 20
x = torch.randn(rows, length, 4)
fails = torch.randint(5, length, (rows, 1))
time = torch.arange(length)
state = torch.where(time >= fails, 0, 1 + (x[..., 0] > 0).long() + (x[..., 1] > 0).long())
x[..., 3] += 2.0 * (time >= fails)
model = nn.GRU(4, 16, batch_first=True)
head = nn.Linear(16, 4)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
for epoch in range(4):
    for pick in torch.randperm(rows).split(32):
        log_p = head(model(x[pick])[0]).log_softmax(-1)
        loss = -log_p.gather(-1, state[pick].unsqueeze(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
