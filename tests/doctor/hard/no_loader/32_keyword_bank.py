# kind: without a DataLoader
# expect: augmented-validation
# why: Bank.pick copies the bank with its augment flag, so the validation part is cut from the augmenting bank and
#      every reading of it has other noise, shift and gain.
import copy

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)

CFG = dict(seed=3, clips=900, rate=512, words=6, batch=32, epochs=12, lr=2e-3)


class Bank:
    """All clips in memory, with a reader that can disturb what it hands out."""

    def __init__(self, clips, words, rng, augment):
        self.clips, self.words = clips, words
        self.rng = rng
        self.augment = augment
        self.rows = np.arange(len(clips))

    def __len__(self):
        return len(self.rows)

    def pick(self, rows):
        part = copy.copy(self)
        part.rows = np.asarray(rows)
        return part

    def _disturb(self, x):
        x = np.roll(x, self.rng.integers(-40, 41))
        x = x * self.rng.uniform(0.7, 1.3)
        return x + self.rng.normal(0, 0.25, size=x.shape)

    def read(self, places):
        rows = self.rows[places]
        x = self.clips[rows]
        if self.augment:
            x = np.stack([self._disturb(c) for c in x])
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(self.words[rows])

    def batches(self, size, order):
        for lo in range(0, len(order), size):
            yield self.read(order[lo:lo + size])


def record(cfg, rng):
    t = np.arange(cfg["rate"]) / cfg["rate"]
    words = rng.integers(0, cfg["words"], size=cfg["clips"])
    base = 20 + 14 * words[:, None]
    glide = np.where(words % 2 == 0, 18.0, -18.0)[:, None]
    phase = rng.uniform(0, 2 * np.pi, size=(cfg["clips"], 1))
    wave = np.sin(2 * np.pi * (base + rng.normal(0, 4, size=base.shape) + glide * t / 2) * t + phase)
    wave = wave + 0.6 * rng.normal(size=wave.shape)
    return wave, words


class Spotter(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.register_buffer("window", torch.hann_window(64))
        self.body = nn.Sequential(
            nn.Conv1d(33, 32, 3, padding=1), nn.ReLU(),
            nn.Conv1d(32, 48, 3, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(),
            nn.Dropout(0.2), nn.Linear(48, words),
        )

    def forward(self, wave):
        spec = torch.stft(wave, 64, hop_length=32, window=self.window, return_complex=True).abs()
        return self.body(torch.log1p(spec) - 1.0)


def run(cfg):
    torch.manual_seed(cfg["seed"])
    rng = np.random.default_rng(cfg["seed"])
    wave, words = record(cfg, rng)
    order = rng.permutation(len(wave))
    hold = len(wave) // 5
    valid_rows, train_rows = order[:hold], order[hold:]
    mu, sd = wave[train_rows].mean(), wave[train_rows].std()
    bank = Bank((wave - mu) / sd, words, rng, augment=True)
    train, valid = bank.pick(train_rows), bank.pick(valid_rows)

    net = Spotter(cfg["words"])
    opt = torch.optim.Adam(net.parameters(), lr=cfg["lr"])
    crit = nn.CrossEntropyLoss()
    best = 0.0
    for epoch in range(cfg["epochs"]):
        net.train()
        running = 0.0
        for x, y in train.batches(cfg["batch"], rng.permutation(len(train))):
            opt.zero_grad()
            loss = crit(net(x), y)
            loss.backward()
            opt.step()
            running += loss.item() * len(y)

        net.eval()
        hits, vloss = 0, 0.0
        with torch.no_grad():
            for x, y in valid.batches(cfg["batch"], np.arange(len(valid))):
                out = net(x)
                vloss += crit(out, y).item() * len(y)
                hits += (out.argmax(1) == y).sum().item()
        best = max(best, hits / len(valid))
        print(f"{epoch:2d} train {running / len(train):.4f} valid {vloss / len(valid):.4f} acc {hits / len(valid):.3f}")
    print("best", round(best, 3))


if __name__ == "__main__":
    run(CFG)
