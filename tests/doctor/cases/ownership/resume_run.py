"""Train, then go on from the best checkpoint."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(6, 20)
        self.l2 = nn.Linear(20, 2)

    def forward(self, x):
        return self.l2(torch.relu(self.l1(x)))


def epoch(net, opt, x, y):
    net.train()
    for pick in torch.randperm(len(x)).split(20):
        opt.zero_grad()
        loss = F.cross_entropy(net(x[pick]), y[pick])
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(3)
x = torch.randn(200, 6)
y = (x[:, 0] * x[:, 1] > 0).long()
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "best.pt")
    print("first", epoch(model, optimizer, x, y))
    torch.save(model.state_dict(), path)
    model = Net()
    model.load_state_dict(torch.load(path))
    for k in range(4):
        print(k, epoch(model, optimizer, x, y))
