# kind: second_phase
# expect: nothing
# why: might be accused of evaluated-in-train-mode, averaged-batchnorm-stale and leaf-written-in-place; the train-mode pass without gradients re-estimates the BatchNorm statistics of the averaged weights before they are evaluated in eval mode.
"""1-D signal classifier: cosine phase, then a constant-rate phase with averaged weights."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass(frozen=True)
class Config:
    seed: int = 3
    length: int = 64
    classes: int = 5
    batch: int = 64
    cosine_epochs: int = 7
    average_epochs: int = 6
    lr: float = 0.08
    average_lr: float = 0.02


def signals(n, cfg, gen):
    """Chirps whose class is the rate at which the frequency grows."""
    y = torch.randint(0, cfg.classes, (n,), generator=gen)
    t = torch.linspace(0, 1, cfg.length)
    phase = 2 * math.pi * torch.rand(n, 1, generator=gen)
    rate = 2.0 + 1.5 * y[:, None]
    wave = torch.sin(2 * math.pi * (2 * t + rate * t * t) + phase)
    return (wave + 1.3 * torch.randn(n, cfg.length, generator=gen))[:, None], y


def network(cfg):
    return nn.Sequential(
        nn.Conv1d(1, 16, 7, padding=3, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(16, 32, 5, padding=2, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2),
        nn.Conv1d(32, 48, 3, padding=1, bias=False), nn.BatchNorm1d(48), nn.ReLU(),
        nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(192, cfg.classes))


def train_epoch(model, loader, optimizer):
    model.train()
    total = count = 0
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
        count += len(y)
    return total / count


def evaluate(model, loader):
    model.eval()
    loss_sum = hits = count = 0
    with torch.no_grad():
        for x, y in loader:
            logits = model(x)
            loss_sum += F.cross_entropy(logits, y, reduction="sum").item()
            hits += (logits.argmax(dim=1) == y).sum().item()
            count += len(y)
    return loss_sum / count, hits / count


@torch.no_grad()
def add_to_average(average, model, already):
    for kept, live in zip(average.parameters(), model.parameters()):
        kept.lerp_(live, 1.0 / (already + 1))


@torch.no_grad()
def refresh_statistics(model, loader):
    """Cumulative BatchNorm statistics over one pass through the training data."""
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    for x, _ in loader:
        model(x)
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.eval()


def main():
    torch.set_num_threads(1)
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    train, valid, test = (signals(n, cfg, gen) for n in (3200, 800, 800))
    mean, std = train[0].mean(), train[0].std()
    train, valid, test = (TensorDataset((x - mean) / std, y) for x, y in (train, valid, test))
    train_loader = DataLoader(train, batch_size=cfg.batch, shuffle=True, drop_last=True)
    valid_loader, test_loader = DataLoader(valid, batch_size=256), DataLoader(test, batch_size=256)

    model = network(cfg)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=5e-4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=cfg.cosine_epochs, eta_min=cfg.average_lr)
    for epoch in range(cfg.cosine_epochs):
        loss = train_epoch(model, train_loader, optimizer)
        cosine.step()
        print(f"cosine {epoch} train {loss:.4f} valid {evaluate(model, valid_loader)}")

    average = copy.deepcopy(model).requires_grad_(False)
    for group in optimizer.param_groups:
        group["lr"] = cfg.average_lr
    for epoch in range(cfg.average_epochs):
        loss = train_epoch(model, train_loader, optimizer)
        add_to_average(average, model, already=epoch)
        print(f"average {epoch} train {loss:.4f}")
    refresh_statistics(average, train_loader)

    live, averaged = evaluate(model, valid_loader), evaluate(average, valid_loader)
    chosen = average if averaged[0] <= live[0] else model
    print(f"valid live {live} averaged {averaged}")
    print(f"test of the chosen model {evaluate(chosen, test_loader)}")


if __name__ == "__main__":
    main()
