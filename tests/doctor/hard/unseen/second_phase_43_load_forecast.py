# kind: in a second phase
# expect: lr-overwritten-by-load
# why: the adaptation job builds AdamW with its own small lr and then loads the optimizer of the first job, which brings
#   that job's lr of 4e-3 back; the lr of the settings is never used.
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn as nn

JOBS = {
    "history": {"hours": (0, 3000), "valid": (3000, 3500), "lr": 4e-3, "steps": 150, "init": None},
    "adapt":   {"hours": (3500, 4600), "valid": (4600, 5100), "lr": 1e-4, "steps": 200, "init": "history"},
}
PAST, AHEAD = 48, 12


def load_curve():
    rng = np.random.default_rng(17)
    h = np.arange(5100)
    level = np.where(h < 3500, 0.0, 0.4)
    noise = np.zeros(len(h))
    for i in range(1, len(h)):
        noise[i] = 0.8 * noise[i - 1] + 0.12 * rng.normal()
    day = np.sin(2 * np.pi * h / 24) + 0.4 * np.sin(4 * np.pi * h / 24 + 1.0)
    week = 0.5 * (np.sin(2 * np.pi * h / 168) > 0.3)
    curve = 40 + 9 * (day * np.where(h < 3500, 1.0, 0.8) + week + level + noise)
    return curve.astype("float32")


class Forecaster(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.mix = nn.Conv1d(1, dim, 5, padding=4)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(dim, AHEAD)

    def forward(self, past):
        z = torch.relu(self.mix(past.unsqueeze(1)))[..., :past.shape[1]]
        _, h = self.rnn(z.transpose(1, 2))
        return past[:, -1:] + self.out(self.drop(h[-1]))


def cut(series, span):
    lo, hi = span
    return torch.from_numpy(np.lib.stride_tricks.sliding_window_view(series[lo:hi], PAST + AHEAD).copy())


def job(name, folder):
    spec = JOBS[name]
    torch.manual_seed(1000 + len(name))
    curve = load_curve()
    mean, std = curve[:3000].mean(), curve[:3000].std()
    series = (curve - mean) / std
    train, valid = cut(series, spec["hours"]), cut(series, spec["valid"])

    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=spec["lr"], weight_decay=1e-2)
    criterion = nn.HuberLoss()
    if spec["init"]:
        saved = torch.load(os.path.join(folder, spec["init"] + ".pt"), weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    def score():
        model.eval()
        with torch.no_grad():
            value = criterion(model(valid[:, :PAST]), valid[:, PAST:]).item()
        model.train()
        return value

    print(json.dumps({"job": name, "lr": spec["lr"], "windows": len(train), "start": round(score(), 4)}), flush=True)
    model.train()
    order = torch.empty(0, dtype=torch.long)
    for step in range(1, spec["steps"] + 1):
        if len(order) < 64:
            order = torch.randperm(len(train))
        rows, order = order[:64], order[64:]
        window = train[rows]
        optimizer.zero_grad()
        loss = criterion(model(window[:, :PAST]), window[:, PAST:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 25 == 0:
            print(f"{name} {step:3d}  train {loss.item():.4f}  valid {score():.4f}", flush=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, os.path.join(folder, name + ".pt"))


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) == 3:
        job(sys.argv[1], sys.argv[2])
    else:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, os.path.abspath(__file__), "history", folder], check=True)
            job("adapt", folder)
