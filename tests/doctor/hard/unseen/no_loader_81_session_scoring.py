# kind: without a DataLoader
# expect: ragged-mean
# why: evaluate() averages the per-chunk means with equal weight although torch.split leaves a last chunk of 6 of 518 rows (the newest, hardest sessions); the reported validation loss is about eight times the true one (0.43 against 0.05) and the best epoch is picked on it.
"""Session scoring on time-ordered logs held in memory, with best-epoch selection."""
import copy

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(41)

FEATURES, CHUNK, BATCH = 18, 256, 64


class Meter:
    def __init__(self):
        self.values = {}

    def update(self, **metrics):
        for name, value in metrics.items():
            self.values.setdefault(name, []).append(float(value))

    def summary(self):
        return {k: sum(v) / len(v) for k, v in self.values.items()}


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Dropout(0.1),
                                 nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def make_log(n, g, weights, drift_last=0):
    x = torch.randn(n, FEATURES, generator=g)
    y = torch.sin(x @ weights[0]) + 0.5 * (x @ weights[1]) + 0.1 * torch.randn(n, generator=g)
    if drift_last:
        y[-drift_last:] += 1.2
    return x, y


def train_epoch(model, opt, x, y, g):
    model.train()
    meter = Meter()
    for idx in torch.randperm(len(x), generator=g).split(BATCH):
        loss = F.mse_loss(model(x[idx]), y[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        meter.update(loss=loss.item())
    return meter.summary()


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    meter = Meter()
    for xs, ys in zip(x.split(CHUNK), y.split(CHUNK)):
        pred = model(xs)
        meter.update(mse=F.mse_loss(pred, ys).item(), mae=F.l1_loss(pred, ys).item())
    return meter.summary()


def main():
    g = torch.Generator().manual_seed(9)
    weights = torch.randn(2, FEATURES, generator=g) / FEATURES ** 0.5
    xt, yt = make_log(2560, g, weights)
    xv, yv = make_log(518, g, weights, drift_last=6)
    model = Scorer()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    best, best_state, best_epoch = float("inf"), None, -1

    for epoch in range(10):
        train = train_epoch(model, opt, xt, yt, g)
        valid = evaluate(model, xv, yv)
        if valid["mse"] < best:
            best, best_epoch = valid["mse"], epoch
            best_state = copy.deepcopy(model.state_dict())
        print(f"epoch {epoch} train {train['loss']:.4f} valid mse {valid['mse']:.4f} "
              f"mae {valid['mae']:.4f}")
    model.load_state_dict(best_state)
    print(f"selected epoch {best_epoch}: validation mse {evaluate(model, xv, yv)['mse']:.4f}")


if __name__ == "__main__":
    main()
