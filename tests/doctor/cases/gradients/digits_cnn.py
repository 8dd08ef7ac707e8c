"""A convolutional network on drawn digits."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(8 * 16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        return self.fc(self.drop(x.flatten(1)))


class Experiment:
    def __init__(self):
        self.model = DigitNet()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def compute_loss(self, batch):
        images, digits = batch
        return F.cross_entropy(self.model(images), digits)

    def update(self, loss):
        self.optimizer.step()
        loss.backward()
        self.optimizer.zero_grad()

    def run(self, train, test, epochs):
        for epoch in range(epochs):
            self.model.train()
            for batch in train:
                self.update(self.compute_loss(batch))
            print(epoch, self.accuracy(test))

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        hits = sum((self.model(x).argmax(1) == y).sum().item() for x, y in loader)
        return hits / len(loader.dataset)


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 4, (n,), generator=g)
    x = 0.3 * torch.randn(n, 1, 8, 8, generator=g)
    for i, d in enumerate(y.tolist()):
        x[i, 0, 2 * d : 2 * d + 2, 2:6] += 1
    return TensorDataset(x, y)


if __name__ == "__main__":
    torch.manual_seed(0)
    Experiment().run(DataLoader(make(128, 0), 16, shuffle=True), DataLoader(make(32, 1), 32), epochs=5)
