# kind: without a DataLoader
# expect: not-shuffled
# why: Each shard is an index array, so self.order[shard] is a copy, and shuffling that copy in place changes nothing:
#      every epoch reads the rows in the order of recording.
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


@dataclass(frozen=True)
class Config:
    seed: int = 61
    rows: int = 3600
    sensors: int = 14
    states: int = 4
    shards: int = 6
    batch: int = 60
    epochs: int = 8
    lr: float = 2e-3


def plant_log(cfg, rng):
    """A log in the order of recording: the plant stays in a state for a while, then changes to another."""
    state, states = 0, []
    while len(states) < cfg.rows:
        state = int(rng.integers(cfg.states))
        states += [state] * int(rng.integers(8, 30))
    states = np.array(states[:cfg.rows])
    mix = rng.normal(size=(cfg.states, cfg.sensors))
    loud = rng.uniform(0.5, 40, size=cfg.sensors)
    level = 0.6 * mix[states] + rng.normal(size=(cfg.rows, cfg.sensors))
    level[:, :4] += (states[:, None] == 2) * level[:, 4:8]
    return (level * loud + 100).astype(np.float32), states


class Reader:
    """Rows are read shard by shard, in a random order inside the shard."""

    def __init__(self, x, y, rows, shards, seed):
        self.x, self.y = x, y
        self.order = np.array(rows)
        places = np.arange(len(rows))
        self.shards = np.array_split(places, shards)
        self.rng = np.random.default_rng(seed)

    def reshuffle(self):
        for shard in self.shards:
            self.rng.shuffle(self.order[shard])

    def epoch(self, size):
        self.reshuffle()
        for shard in self.shards:
            rows = self.order[shard]
            for lo in range(0, len(rows), size):
                pick = rows[lo:lo + size]
                yield torch.from_numpy(self.x[pick]), torch.from_numpy(self.y[pick])


class StateNet(nn.Module):
    def __init__(self, sensors, states, width=64):
        super().__init__()
        self.a = nn.Linear(sensors, width)
        self.b = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, states)

    def forward(self, x):
        h = F.elu(self.a(x))
        h = F.dropout(F.elu(self.b(self.norm(h))), 0.1, self.training)
        return self.out(h)


def validate(model, x, y):
    model.eval()
    with torch.no_grad():
        out = model(torch.from_numpy(x))
        y = torch.from_numpy(y)
        return F.cross_entropy(out, y).item(), (out.argmax(1) == y).float().mean().item()


def fit(cfg):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    x, y = plant_log(cfg, rng)
    edge = int(0.8 * cfg.rows)
    mu, sd = x[:edge].mean(0), x[:edge].std(0)
    x = (x - mu) / sd
    reader = Reader(x, y, range(edge), cfg.shards, cfg.seed + 1)
    model = StateNet(cfg.sensors, cfg.states)
    opt = torch.optim.Adamax(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        model.train()
        total, n = 0.0, 0
        for bx, by in reader.epoch(cfg.batch):
            opt.zero_grad()
            loss = F.cross_entropy(model(bx), by)
            loss.backward()
            opt.step()
            total, n = total + loss.item() * len(by), n + len(by)
        v, acc = validate(model, x[edge:], y[edge:])
        print(f"epoch {epoch}: {n} rows, train {total / n:.4f}, valid {v:.4f}, acc {acc:.3f}")


fit(Config())
