"""The training was moved from nll_loss to cross_entropy and the test was not: its loss is that of no model."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(2)
centres = torch.randn(4, 8) * 1.5
labels = torch.randint(0, 4, (600,))
points = centres[labels] + torch.randn(600, 8)
train_loader = DataLoader(TensorDataset(points[:440], labels[:440]), batch_size=40, shuffle=True)
test_loader = DataLoader(TensorDataset(points[440:], labels[440:]), batch_size=40)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()


def test():
    net.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for x, y in test_loader:
            output = net(x)
            total += F.nll_loss(output, y, reduction="sum").item()
            correct += (output.argmax(1) == y).sum().item()
    return total / len(test_loader.dataset), correct / len(test_loader.dataset)


for _ in range(4):
    net.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    print("loss {:.3f} accuracy {:.3f}".format(*test()))
