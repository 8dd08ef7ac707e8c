# kind: several
# expect: nothing
# why: Might be accused of train-valid-overlap, optimizer-recreated, stale-optimizer or batchnorm-of-one: every fold has its own net, optimizer and scaling, the final net is refitted on all folds for the chosen number of epochs, and the test rows are only read once.
"""Concrete strength regression: choose weight decay and epochs by five folds, refit on everything, test once."""
import json
import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    weight_decay: float
    width: int


def mixtures(n, rng):
    cement, water = rng.uniform(100, 540, n), rng.uniform(120, 250, n)
    slag, age = rng.uniform(0, 360, n), rng.integers(1, 365, n).astype(float)
    additive = rng.uniform(0, 32, n)
    ratio = (cement + 0.5 * slag) / water
    strength = 14 * ratio * np.log1p(age) / 3 + 0.4 * additive - 3 + rng.normal(0, 3.0, n)
    return np.stack([cement, water, slag, np.log(age), additive], 1), strength


class Regressor:
    """fit / predict around a net; inputs and targets are scaled by what `fit` was given."""

    def __init__(self, choice, seed, lr=6e-3, batch_size=96):
        self.choice, self.lr, self.batch_size = choice, lr, batch_size
        torch.manual_seed(seed)
        w = choice.width
        self.net = nn.Sequential(nn.Linear(5, w), nn.BatchNorm1d(w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Dropout(0.05), nn.Linear(w, 1))

    def _x(self, x):
        return torch.from_numpy((x - self.x_mean) / self.x_std).float()

    def fit(self, x, y, epochs, each_epoch=None):
        self.x_mean, self.x_std, self.y_mean, self.y_std = x.mean(0), x.std(0), y.mean(), y.std()
        inputs, targets = self._x(x), torch.from_numpy((y - self.y_mean) / self.y_std).float()
        decayed, plain = [p for p in self.net.parameters() if p.ndim > 1], [p for p in self.net.parameters() if p.ndim == 1]
        groups = [{"params": decayed, "weight_decay": self.choice.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=self.lr)
        for epoch in range(1, epochs + 1):
            self.net.train()
            for index in torch.randperm(len(inputs)).split(self.batch_size):
                if len(index) < 2:
                    continue  # BatchNorm cannot work on a single row
                loss = nn.functional.mse_loss(self.net(inputs[index]).squeeze(1), targets[index])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if each_epoch is not None:
                each_epoch(epoch, self)
        return self

    @torch.no_grad()
    def predict(self, x):
        self.net.eval()
        return self.net(self._x(x)).squeeze(1).numpy() * self.y_std + self.y_mean


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def folds(n, k, rng):
    parts = np.array_split(rng.permutation(n), k)
    for i in range(k):
        yield np.concatenate([p for j, p in enumerate(parts) if j != i]), parts[i]


def cross_validate(choice, x, y, splits, epochs):
    """Squared error of every epoch, pooled over the held-out rows of all folds."""
    squared = np.zeros(epochs)
    for number, (fit_rows, held_out) in enumerate(splits):

        def record(epoch, model, rows=held_out):
            squared[epoch - 1] += ((model.predict(x[rows]) - y[rows]) ** 2).sum()

        Regressor(choice, seed=number).fit(x[fit_rows], y[fit_rows], epochs, record)
    curve = np.sqrt(squared / len(x))
    best = int(curve.argmin())
    return float(curve[best]), best + 1


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(20)
    x, y = mixtures(1403, rng)
    order = rng.permutation(len(x))
    develop, test = order[:1103], order[1103:]
    x_dev, y_dev = x[develop], y[develop]
    splits = list(folds(len(x_dev), 5, rng))

    results = {}
    for choice in (Choice(1e-1, 32), Choice(1e-2, 64)):
        results[choice] = cross_validate(choice, x_dev, y_dev, splits, epochs=18)
        logger.info("%s  cross-validated rmse %.3f at epoch %d", choice, *results[choice])
    choice = min(results, key=lambda c: results[c][0])
    epochs = results[choice][1]
    members = [Regressor(choice, seed=100 + s).fit(x_dev, y_dev, epochs) for s in range(3)]
    prediction = np.mean([m.predict(x[test]) for m in members], axis=0)
    summary = {"width": choice.width, "weight_decay": choice.weight_decay, "epochs": epochs, "test_rmse": round(rmse(prediction, y[test]), 3)}
    logger.info(json.dumps(summary))


if __name__ == "__main__":
    main()
