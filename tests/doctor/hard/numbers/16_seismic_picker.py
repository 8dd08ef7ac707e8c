# kind: numbers
# expect: nothing
# like: softmax-wrong-dim
# why: everything is time-major (time, batch, features), so softmax over dimension 0 runs over time, as attention wants.
"""Magnitude of a quake from a trace: LSTM in its native time-major layout with attention over time."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def traces(n, seed, length=48):
    g = torch.Generator().manual_seed(seed)
    magnitude = torch.randn(n, generator=g).clamp(-2, 2)
    onset = torch.randint(5, 25, (n, 1), generator=g)
    t = torch.arange(length)[None] - onset
    envelope = torch.where(t >= 0, torch.exp(-t.clamp(min=0) / 8.0), torch.zeros(()))
    carrier = torch.sin(1.1 * t)
    amp = torch.exp(0.5 * magnitude)[:, None]
    x = amp * envelope * carrier + 0.1 * torch.randn(n, length, generator=g)
    return TensorDataset(torch.stack([x, x.abs() - 0.2], -1) * 2, magnitude)


def time_major(batch):
    xs, ys = zip(*batch)
    return torch.stack(xs, dim=1), torch.stack(ys)


class Picker(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.lstm = nn.LSTM(2, hidden)
        self.query = nn.Linear(hidden, 1)
        self.out = nn.Sequential(nn.Linear(hidden, 24), nn.ReLU(), nn.Linear(24, 1))

    def forward(self, x):
        h, _ = self.lstm(x)
        weight = torch.softmax(self.query(h), dim=0)
        return self.out((weight * h).sum(dim=0)).squeeze(-1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(81)
    train = DataLoader(traces(1920, 1), batch_size=64, shuffle=True, collate_fn=time_major)
    valid = DataLoader(traces(512, 2), batch_size=128, collate_fn=time_major)
    model = Picker()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)
    criterion = nn.SmoothL1Loss()
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, magnitude in train:
            loss = criterion(model(x), magnitude)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            optimizer.step()
            total += loss.item()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            err = torch.cat([(model(x) - m).abs() for x, m in valid]).mean()
        print(f"epoch {epoch} loss {total / len(train):.4f} valid mean error {err:.4f}")


if __name__ == "__main__":
    main()
