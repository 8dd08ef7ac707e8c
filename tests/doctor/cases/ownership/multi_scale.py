"""Several convolution branches of different width, concatenated."""

import torch
from torch import nn


class Inception(nn.Module):
    def __init__(self, channels, sizes=(1, 3, 5)):
        super().__init__()
        self.branches = {f"k{k}": nn.Conv1d(channels, 4, k, padding=k // 2) for k in sizes}
        self.norm = nn.BatchNorm1d(4 * len(sizes))

    def forward(self, x):
        return torch.relu(self.norm(torch.cat([b(x) for b in self.branches.values()], dim=1)))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Inception(2)
        self.fc = nn.Linear(12, 2)

    def forward(self, x):
        return self.fc(self.block(x).mean(-1))


torch.manual_seed(5)
y = torch.randint(0, 2, (240,))
t = torch.linspace(0, 6, 18)
x = torch.sin(t * (1 + y[:, None].float())).unsqueeze(1).repeat(1, 2, 1) + 0.2 * torch.randn(240, 2, 18)
model = Classifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    model.train()
    for pick in torch.randperm(200).split(20):
        optimizer.zero_grad()
        loss = criterion(model(x[pick]), y[pick])
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, (model(x[200:]).argmax(1) == y[200:]).float().mean().item())
