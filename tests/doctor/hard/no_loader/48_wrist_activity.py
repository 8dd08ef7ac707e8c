# kind: without a DataLoader
# expect: batch-mixed
# why: The gravity part should be removed per window, over time; the mean and spread are taken over dim 0, the batch,
#      so every output depends on the other windows that happen to be in the batch, in evaluation too.
import numpy as np
import torch
import torch.nn as nn

torch.set_num_threads(1)
RATE, WINDOW, HOP = 25, 75, 25
ACTIVITIES = ["rest", "walk", "run", "wash", "type"]


def wear_watch(person, rng, bouts=30):
    """Three-axis recording of one person: bouts of activities, arm held in any direction."""
    signal, label = [], []
    for _ in range(bouts):
        a = rng.integers(len(ACTIVITIES))
        n = int(rng.integers(5, 9)) * RATE
        t = np.arange(n) / RATE
        freq = [0.2, 1.8, 2.9, 0.9, 4.6][a] * (1 + 0.06 * person["pace"])
        size = [0.05, 0.6, 1.3, 0.5, 0.25][a]
        gravity = rng.normal(size=3)
        gravity /= np.linalg.norm(gravity)
        axes = rng.normal(size=3)
        wave = size * np.sin(2 * np.pi * freq * t + rng.uniform(0, 6))[:, None] * axes
        signal.append(gravity + wave + 0.15 * rng.normal(size=(n, 3)))
        label.append(np.full(n, a))
    return np.concatenate(signal).astype(np.float32), np.concatenate(label)


def slice_windows(signal, label):
    xs, ys = [], []
    for lo in range(0, len(signal) - WINDOW + 1, HOP):
        inside = label[lo:lo + WINDOW]
        if (inside == inside[0]).all():
            xs.append(signal[lo:lo + WINDOW].T)
            ys.append(inside[0])
    return np.stack(xs), np.array(ys)


class Detrend(nn.Module):
    """Takes the slow part of each channel away and brings it to unit spread."""

    def __init__(self, eps=0.05):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        slow = x.mean(0, keepdim=True)
        spread = x.std(0, keepdim=True)
        return (x - slow) / (spread + self.eps)


class ActivityNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.detrend = Detrend()
        self.features = nn.Sequential(
            nn.Conv1d(3, 24, 7, stride=2, padding=3), nn.ReLU(),
            nn.Conv1d(24, 32, 5, stride=2, padding=2), nn.ReLU(),
            nn.Conv1d(32, 32, 3, padding=1), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(64, classes))

    def forward(self, x):
        h = self.features(self.detrend(x))
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


def gather(people, rng):
    parts = [slice_windows(*wear_watch(p, rng)) for p in people]
    return tuple(map(np.concatenate, zip(*parts)))


def main():
    torch.manual_seed(13)
    rng = np.random.default_rng(13)
    people = [{"pace": rng.normal()} for _ in range(11)]
    x, y = gather(people[:8], rng)
    vx, vy = gather(people[8:], rng)
    mu, sd = x.mean((0, 2), keepdims=True), x.std((0, 2), keepdims=True)
    x, vx = torch.from_numpy((x - mu) / sd), torch.from_numpy((vx - mu) / sd)
    y, vy = torch.from_numpy(y), torch.from_numpy(vy)
    order = torch.randperm(len(vx))
    vx, vy = vx[order], vy[order]
    print(len(x), "training windows,", len(vx), "from other people")

    net = ActivityNet(len(ACTIVITIES))
    opt = torch.optim.Adam(net.parameters(), lr=1.5e-3)
    ce = nn.CrossEntropyLoss()
    size = 32
    for epoch in range(10):
        net.train()
        total = 0.0
        mix = torch.randperm(len(x))
        full = len(x) // size * size
        for pick in mix[:full].split(size):
            opt.zero_grad()
            loss = ce(net(x[pick]), y[pick])
            loss.backward()
            opt.step()
            total += loss.item() * len(pick)

        net.eval()
        vtotal, hits = 0.0, 0
        with torch.no_grad():
            for a, b in zip(vx.split(size), vy.split(size)):
                out = net(a)
                vtotal += ce(out, b).item() * len(b)
                hits += (out.argmax(1) == b).sum().item()
        print(f"epoch {epoch:2d} train {total / full:.4f} valid {vtotal / len(vx):.4f} acc {hits / len(vx):.3f}")


if __name__ == "__main__":
    main()
