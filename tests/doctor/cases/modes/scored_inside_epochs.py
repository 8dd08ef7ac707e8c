"""Wine grades; a score is taken every 20 steps, and only the next epoch puts the network into train mode again."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
x = torch.randn(960, 11)
y = (x[:, :3].sum(1) > 0).long()
train = DataLoader(TensorDataset(x[:800], y[:800]), batch_size=16, shuffle=True)
valid = x[800:], y[800:]
net = nn.Sequential(nn.Linear(11, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
criterion = nn.CrossEntropyLoss()


@torch.no_grad()
def score():
    net.eval()
    return (net(valid[0]).argmax(1) == valid[1]).float().mean().item()


step = 0
for epoch in range(9):
    net.train()
    for a, b in train:
        optimizer.zero_grad()
        criterion(net(a), b).backward()
        optimizer.step()
        step += 1
        if step % 20 == 0:
            accuracy = score()
    print(epoch, accuracy)
