# kind: numbers
# expect: sigmoid-before-bce-logits
# why: the last layer "Gate" is 0.5 * (1 + tanh(x / 2)), which is the sigmoid; its probabilities go into
#      BCEWithLogitsLoss, which squashes again, so the loss cannot fall below about 0.6.
"""Which species sing in a clip (several may)?"""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SPECIES = 6


def clips(n, seed, length=100):
    g = torch.Generator().manual_seed(seed)
    present = (torch.rand(n, SPECIES, generator=g) < 0.35).float()
    t = torch.linspace(0, 1, length)
    freq = torch.tensor([3.0, 6.0, 10.0, 15.0, 21.0, 28.0])
    phase = 2 * math.pi * torch.rand(n, SPECIES, 1, generator=g)
    songs = torch.sin(2 * math.pi * freq[:, None] * t + phase)
    x = (present[:, :, None] * songs).sum(1) + 0.3 * torch.randn(n, length, generator=g)
    return TensorDataset(x.unsqueeze(1) / 1.07, present)


class Gate(nn.Module):
    """Smooth gate between 0 and 1."""

    def forward(self, x):
        return 0.5 * (1.0 + torch.tanh(0.5 * x))


class SongNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(1, 24, 17, padding=8), nn.BatchNorm1d(24), nn.ReLU(), nn.MaxPool1d(4),
                                  nn.Conv1d(24, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, SPECIES), Gate())

    def forward(self, x):
        return self.head(self.conv(x).amax(-1))


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = n = 0
    for x, y in loader:
        right += ((model(x) > 0.5) == (y > 0.5)).sum().item()
        n += y.numel()
    return right / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(46)
    train = DataLoader(clips(2048, 1), batch_size=64, shuffle=True)
    valid = DataLoader(clips(512, 2), batch_size=128)
    model = SongNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}  loss {total / len(train):.4f}  label accuracy {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
