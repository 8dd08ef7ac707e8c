# kind: in a second phase
# expect: schedule-wrong-unit
# why: stage 2's cosine schedule gets its horizon in epochs (T_max=epochs) but run_epoch steps it after every batch (step_per_batch=True), so the learning rate swings up and down many times per epoch instead of decaying once over the stage; stage 1 is right.
"""Two-stage curve fitting: coarse stage on noisy labels, then a fine stage on clean labels with a cosine decay."""
import math

import numpy as np
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(3)
rng = np.random.default_rng(3)

STAGES = (
    dict(name="coarse", epochs=9, lr=4e-3, schedule="onecycle", noise=0.5),
    dict(name="fine", epochs=12, lr=6e-3, schedule="cosine", noise=0.15),
)


def target(x):
    return np.sin(1.5 * x[:, :1]) * x[:, 1:2] + 0.5 * x[:, 2:3] * x[:, 3:4]


def make_set(n, noise):
    x = rng.uniform(-1.5, 1.5, size=(n, 6)).astype("float32")
    y = (target(x) + noise * rng.normal(size=(n, 1))).astype("float32")
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def build_schedule(kind, optimizer, lr, epochs, batches):
    if kind == "onecycle":
        return OneCycleLR(optimizer, max_lr=lr * 2, total_steps=epochs * batches)
    if kind == "cosine":
        return CosineAnnealingLR(optimizer, T_max=epochs, eta_min=lr * 1e-2)
    raise KeyError(kind)


def run_epoch(model, loader, optimizer, scheduler, step_per_batch):
    model.train()
    total, seen = 0.0, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if step_per_batch:
            scheduler.step()
        total += loss.item() * len(x)
        seen += len(x)
    if not step_per_batch:
        scheduler.step()
    return total / seen


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err, seen = 0.0, 0
    for x, y in loader:
        err += ((model(x) - y) ** 2).sum().item()
        seen += len(x)
    return math.sqrt(err / seen)


def main():
    model = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
    valid = DataLoader(make_set(500, 0.0), batch_size=250)
    for stage in STAGES:
        loader = DataLoader(make_set(1600, stage["noise"]), batch_size=50, shuffle=True)
        optimizer = torch.optim.AdamW(model.parameters(), lr=stage["lr"], weight_decay=1e-3)
        scheduler = build_schedule(stage["schedule"], optimizer, stage["lr"], stage["epochs"], len(loader))
        for epoch in range(stage["epochs"]):
            loss = run_epoch(model, loader, optimizer, scheduler, step_per_batch=True)
            if epoch % 3 == 2:
                print(f"{stage['name']} epoch {epoch + 1}: loss {loss:.4f}  rmse {evaluate(model, valid):.4f}")


if __name__ == "__main__":
    main()
