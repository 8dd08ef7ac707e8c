import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.pool = nn.AdaptiveAvgPool2d(2)

    def forward(self, x):
        return self.pool(torch.relu(self.bn(self.conv(x)))).flatten(1)


class Classifier(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone
        self.fc = nn.Linear(32, classes)

    def forward(self, x):
        return self.fc(self.backbone(x))


def main():
    torch.manual_seed(19)
    y = torch.randint(0, 2, (160,))
    x = torch.randn(160, 1, 8, 8) + y[:, None, None, None] * 0.8 + 1.0
    train = DataLoader(TensorDataset(x[:120], y[:120]), batch_size=12, shuffle=True)
    val = DataLoader(TensorDataset(x[120:], y[120:]), batch_size=40)
    model = Classifier(Backbone(), 2)
    for param in model.backbone.parameters():
        param.requires_grad = False
    optimizer = optim.SGD(model.fc.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(4):
        model.train()
        for a, b in train:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            hits = sum((model(a).argmax(1) == b).sum().item() for a, b in val)
        print(epoch, loss.item(), hits / 40)


main()
