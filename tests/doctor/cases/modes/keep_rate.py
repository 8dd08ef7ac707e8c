import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MLP(nn.Module):
    def __init__(self, hidden, keep):
        super().__init__()
        self.fc1 = nn.Linear(8, hidden)
        self.drop = nn.Dropout(keep)
        self.fc2 = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.fc2(self.drop(torch.relu(self.fc1(x))))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=float, default=0.9)
    args = parser.parse_args()
    torch.manual_seed(36)
    x = torch.randn(240, 8)
    y = (x[:, 0] > x[:, 1]).long()
    train = DataLoader(TensorDataset(x[:200], y[:200]), batch_size=20, shuffle=True)
    model = MLP(64, args.keep)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        model.train()
        for a, b in train:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(a), b)
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            print(epoch, (model(x[200:]).argmax(1) == y[200:]).float().mean().item())


main()
