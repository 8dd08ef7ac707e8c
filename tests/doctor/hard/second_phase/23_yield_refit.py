# kind: in a second phase
# expect: nothing
# like: train-valid-overlap
# why: the second phase refits a fresh model with the chosen setting on training plus validation data, which is usual; from
#      then on only the test set is looked at, and nothing was ever trained or chosen on it.
"""Crop yield from weather series: choose a width on validation data, refit on both parts, report on the test set."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def fields(count, generator, weeks=20):
    rain = torch.randn(count, weeks, generator=generator)
    heat = torch.randn(count, weeks, generator=generator)
    season = torch.sin(torch.linspace(0, 3.14, weeks))
    target = (rain * season).mean(1) * 3 - 1.5 * (heat * season).mean(1).abs() * 3 + (rain[:, :10] * heat[:, :10]).mean(1)
    target = target + 0.15 * torch.randn(count, generator=generator)
    target = (target + 0.57) / 0.73
    return TensorDataset(torch.stack([rain, heat], dim=1), target)


class YieldNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(2, width, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(20 * width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.head(self.conv(x)).squeeze(1)


def train(model, data, epochs, lr=2e-3):
    loader = DataLoader(data, batch_size=32, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.02)
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
    return total / count


@torch.no_grad()
def mse(model, data):
    model.eval()
    total = 0.0
    for x, y in DataLoader(data, batch_size=256):
        total += F.mse_loss(model(x), y, reduction="sum").item()
    return total / len(data)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--widths", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(62)
    generator = torch.Generator().manual_seed(62)
    train_set, valid_set, test_set = random_split(fields(2400, generator), [1440, 480, 480], generator=generator)

    scores = {}
    for width in args.widths:
        torch.manual_seed(62)
        model = YieldNet(width)
        loss = train(model, train_set, args.epochs)
        scores[width] = mse(model, valid_set)
        print(f"width {width}: train {loss:.4f}  valid {scores[width]:.4f}")
    best = min(scores, key=scores.get)

    torch.manual_seed(63)
    final = YieldNet(best)
    before = mse(final, test_set)
    loss = train(final, ConcatDataset([train_set, valid_set]), args.epochs)
    print(f"refit with width {best}: train {loss:.4f}  test {mse(final, test_set):.4f} (untrained {before:.4f})")


if __name__ == "__main__":
    main()
