# kind: numbers
# expect: graph-kept
# why: the monitor's forward hook appends out.abs().mean() and out.std() with their graphs; every step's activations
#      stay alive through them and the memory grows until the end of the training.
"""River levels from a temporal convolution, with a monitor of activations."""
import argparse
import math
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def series(total=5200, seed=9):
    g = torch.Generator().manual_seed(seed)
    rain = torch.relu(torch.randn(total, generator=g) - 0.8)
    level = torch.zeros(total)
    for i in range(1, total):
        level[i] = 0.93 * level[i - 1] + 0.4 * rain[i - 1]
    season = 0.3 * torch.sin(2 * math.pi * torch.arange(total) / 365)
    level = (level - level.mean()) / level.std() + season
    return torch.stack([level, (rain - rain.mean()) / rain.std()], 0)


def windows(data, start, stop, history=40):
    xs = torch.stack([data[:, i:i + history] for i in range(start, stop - history)])
    ys = torch.stack([data[0, i + history] for i in range(start, stop - history)])
    return TensorDataset(xs, ys)


class TCN(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.blocks = nn.ModuleList()
        channels = 2
        for d in (1, 2, 4, 8):
            self.blocks.append(nn.Sequential(nn.ConstantPad1d((2 * d, 0), 0.0),
                                             nn.Conv1d(channels, width, 3, dilation=d), nn.ReLU()))
            channels = width
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        for b in self.blocks:
            x = b(x)
        return self.out(x[:, :, -1]).squeeze(1)


class Monitor:
    """Watches the size of activations block by block."""

    def __init__(self, model):
        self.values = defaultdict(list)
        for i, block in enumerate(model.blocks):
            block.register_forward_hook(self._hook(f"block{i}"))

    def _hook(self, name):
        def hook(module, inputs, output):
            if module.training:
                self.values[name].append((output.abs().mean(), output.std()))
        return hook

    def summary(self, last):
        return " ".join(f"{k}:{sum(float(m) for m, _ in v[-last:]) / last:.2f}" for k, v in self.values.items())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(91)
    data = series()
    train = DataLoader(windows(data, 0, 4136), batch_size=64, shuffle=True)
    valid = DataLoader(windows(data, 4200, 5200), batch_size=240)
    model = TCN()
    monitor = Monitor(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            mse = torch.cat([(model(x) - y).square() for x, y in valid]).mean()
        print(f"epoch {epoch} train {total / len(train):.4f} valid {mse:.4f} {monitor.summary(len(train))}")


if __name__ == "__main__":
    main()
