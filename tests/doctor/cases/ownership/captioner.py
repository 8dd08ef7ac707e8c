"""Encoder and classifier trained together."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        return self.net(x)


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3))

    def encode(self, x):
        return self.encoder(x).data

    def forward(self, x):
        return self.head(self.encode(x))


def main():
    torch.manual_seed(1)
    x = torch.randn(240, 9)
    y = (x[:, :3] * x[:, 3:6]).argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)
    model = Pipeline()
    loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(5):
        model.train()
        for xb, yb in loader:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
