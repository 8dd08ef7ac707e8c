import torch
import torch.nn.functional as F
from torch import nn


class CenterLoss(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(classes, dim))

    def forward(self, feats, labels):
        return (feats - self.centers[labels]).pow(2).sum(1).mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))
        self.classifier = nn.Linear(4, 3)

    def forward(self, x):
        f = self.features(x)
        return self.classifier(f), f


torch.manual_seed(4)
labels = torch.randint(0, 3, (240,))
data = torch.randn(240, 10) + 1.5 * F.one_hot(labels, 10)
net, center = Net(), CenterLoss(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
for epoch in range(5):
    for idx in torch.randperm(240).split(24):
        logits, feats = net(data[idx])
        loss = F.cross_entropy(logits, labels[idx]) + 0.05 * center(feats, labels[idx])
        optimizer.zero_grad()
        center.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
