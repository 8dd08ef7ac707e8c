"""The training score comes from a loader over part of the training set; the test set is a pair of tensors, in no loader."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

torch.manual_seed(0)
x = torch.randn(300, 8)
y = (x[:, 0] + x[:, 1] > 0).long()
test_x, test_y = torch.randn(100, 8), None
test_y = (test_x[:, 0] + test_x[:, 1] > 0).long()
train = TensorDataset(x, y)
loader = DataLoader(train, batch_size=20, shuffle=True)
score = DataLoader(Subset(train, range(100)), batch_size=50)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)

for epoch in range(3):
    for a, b in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(net(a), b).backward()
        opt.step()
    with torch.no_grad():
        hits = sum((net(a).argmax(1) == b).sum().item() for a, b in score)
        tested = (net(test_x).argmax(1) == test_y).float().mean().item()
    print(epoch, hits / 100, tested)
