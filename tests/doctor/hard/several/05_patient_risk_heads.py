# kind: several losses and optimizers
# expect: gradients-discarded
# also: zero-grad-before-step
# why: zero_grad stands inside the loop over the tasks and step behind it, so the gradients of every task but the
#      last are thrown away; heads of the first two tasks never learn.
"""Three outcomes from one patient table, one shared encoder."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TASKS = ("stay", "readmission", "cost")


def make_table(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 20, generator=g)
    w = torch.randn(20, 3, generator=torch.Generator().manual_seed(5)) / 20 ** 0.5
    raw = x @ w + 0.5 * (x[:, :3] * x[:, 3:6])
    noise = 0.2 * torch.randn(n, 3, generator=g)
    y = raw + noise
    return TensorDataset(x, y[:, 0], (y[:, 1] > 0).float(), y[:, 2])


class RiskModel(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Dropout(0.1),
                                     nn.Linear(width, width), nn.ReLU())
        self.heads = nn.ModuleDict({t: nn.Linear(width, 1) for t in TASKS})

    def forward(self, x, task):
        return self.heads[task](self.encoder(x)).squeeze(-1)


LOSSES = {"stay": nn.SmoothL1Loss(), "readmission": nn.BCEWithLogitsLoss(), "cost": nn.MSELoss()}


def train_epoch(model, loader, optimizer):
    model.train()
    sums = dict.fromkeys(TASKS, 0.0)
    for x, *targets in loader:
        for task, y in zip(TASKS, targets):
            optimizer.zero_grad()
            loss = LOSSES[task](model(x, task), y)
            loss.backward()
            sums[task] += loss.item()
        optimizer.step()
    return {t: s / len(loader) for t, s in sums.items()}


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, n = dict.fromkeys(TASKS, 0.0), 0
    for x, *targets in loader:
        for task, y in zip(TASKS, targets):
            total[task] += LOSSES[task](model(x, task), y).item() * len(x)
        n += len(x)
    return {t: s / n for t, s in total.items()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(8)
    train = DataLoader(make_table(4096, 1), batch_size=64, shuffle=True, drop_last=True)
    valid = DataLoader(make_table(1024, 2), batch_size=256)
    model = RiskModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    for epoch in range(args.epochs):
        tr = train_epoch(model, train, optimizer)
        va = validate(model, valid)
        print(f"epoch {epoch:2d}  " + "  ".join(f"{t} {tr[t]:.3f}/{va[t]:.3f}" for t in TASKS))


if __name__ == "__main__":
    main()
