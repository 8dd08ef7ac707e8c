# kind: several losses and optimizers
# expect: parameter-not-optimized
# why: the auxiliary heads of the deep supervision get gradients in every step but stand in neither of the two
#      optimizers; they stay at their random start.
"""Bearing faults from vibration windows; SGD for the body, Adam for the classifier."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 4


def vibration(n, seed, length=96):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    t = torch.arange(length) / length
    freq = torch.tensor([4.0, 7.0, 11.0, 16.0])[y][:, None]
    phase = 2 * math.pi * torch.rand(n, 1, generator=g)
    x = torch.sin(2 * math.pi * freq * t + phase) + 0.8 * torch.randn(n, length, generator=g)
    return TensorDataset(x.unsqueeze(1) / 1.07, y)


class Stage(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 5, stride=2, padding=2, bias=False)
        self.bn = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class AuxHead(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, h):
        return self.fc(h.amax(-1))


class DeeplySupervised(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([Stage(1, 16), Stage(16, 24), Stage(24, 32)])
        self.aux = nn.ModuleList([AuxHead(16), AuxHead(24)])
        self.classifier = nn.Linear(32, CLASSES)

    def forward(self, x):
        side = []
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i < len(self.aux):
                side.append(self.aux[i](x))
        return self.classifier(x.amax(-1)), side


def evaluate(model, loader):
    model.eval()
    hits = n = 0
    with torch.no_grad():
        for x, y in loader:
            hits += (model(x)[0].argmax(1) == y).sum().item()
            n += len(y)
    return hits / n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--aux-weight", type=float, default=0.3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    train = DataLoader(vibration(2048, 100), batch_size=64, shuffle=True)
    valid = DataLoader(vibration(512, 101), batch_size=128)
    model = DeeplySupervised()
    body = torch.optim.SGD(model.stages.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    head = torch.optim.Adam(model.classifier.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(body, T_max=args.epochs)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            model.zero_grad()
            main_out, side = model(x)
            loss = criterion(main_out, y) + args.aux_weight * sum(criterion(s, y) for s in side)
            loss.backward()
            body.step()
            head.step()
            total += loss.item()
        schedule.step()
        print(f"epoch {epoch}  loss {total / len(train):.4f}  valid accuracy {evaluate(model, valid):.3f}")


if __name__ == "__main__":
    main()
