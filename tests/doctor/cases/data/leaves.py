import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader, Dataset


class LeafDataset(Dataset):
    """Species one after the other, the way the folders are read."""

    def __init__(self, per_class, classes=4, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.samples = []
        for label in range(classes):
            centre = torch.zeros(1, 8, 8)
            centre[0, label * 2 : label * 2 + 2] = 1.0
            for _ in range(per_class):
                self.samples.append((centre + 0.5 * torch.randn(1, 8, 8, generator=g), label))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return self.samples[i]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 8 * 8, 4)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return self.fc(torch.flatten(x, 1))


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(LeafDataset(60), batch_size=16)
    test_loader = DataLoader(LeafDataset(15, seed=1), batch_size=60)
    net = Net()
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(3):
        net.train()
        for _i, (inputs, labels) in enumerate(train_loader):
            optimizer.zero_grad()
            loss = criterion(net(inputs), labels)
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            inputs, labels = next(iter(test_loader))
            print(epoch, (net(inputs).argmax(1) == labels).float().mean().item())


if __name__ == "__main__":
    main()
