# kind: numbers
# expect: nothing
# why: Might be accused of not-shuffled, same-batch-every-step, sigmoid-before-bce-logits or inputs-not-scaled: a weighted sampler draws with replacement, sigmoid is used only on the corrected logits of the evaluation, and the raw columns are standardised by training statistics.
"""Fraud detection with one positive in thirty: balanced draws, prior-corrected probabilities, early stopping on average precision."""
import copy
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler


def transactions(n, rng):
    amount = rng.lognormal(4.0, 1.2, n)
    age = rng.uniform(1, 4000, n)
    hour = rng.integers(0, 24, n)
    velocity = rng.poisson(2.0, n).astype(float)
    foreign = (rng.random(n) < 0.15).astype(float)
    score = 0.9 * np.log(amount) - 0.0006 * age + 0.6 * velocity + 1.5 * foreign + 1.2 * ((hour < 5) & (amount > 80))
    label = rng.random(n) < 1 / (1 + np.exp(-2.0 * (score - 7.8)))
    columns = [np.log(amount), age, np.sin(hour * np.pi / 12), np.cos(hour * np.pi / 12), velocity, foreign]
    return np.stack(columns, 1).astype(np.float32), label.astype(np.float32)


def average_precision(score, label):
    hits = label[np.argsort(-score, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())


@dataclass
class EarlyStopping:
    patience: int
    best: float = -np.inf
    waited: int = 0
    weights: dict = field(default_factory=dict)

    def should_stop(self, score, model):
        if score > self.best:
            self.best, self.waited, self.weights = score, 0, copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience


def net(inputs):
    return nn.Sequential(
        nn.Linear(inputs, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1)
    )


@torch.no_grad()
def probabilities(model, loader, shift):
    """The model was trained on balanced draws; `shift` moves its log-odds back to the true prior."""
    model.eval()
    return torch.cat([torch.sigmoid(model(x).squeeze(1) + shift) for x, _ in loader]).numpy()


def best_threshold(prob, label):
    grid = np.quantile(prob, np.linspace(0.7, 0.999, 120))
    f1 = [2 * (label * (prob >= g)).sum() / max((prob >= g).sum() + label.sum(), 1) for g in grid]
    return float(grid[int(np.argmax(f1))])


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    x, y = transactions(14_000, rng)
    order = rng.permutation(len(x))
    parts = dict(zip(("train", "valid", "test"), np.split(order, [8000, 11_000])))
    mean, std = x[parts["train"]].mean(0), x[parts["train"]].std(0)
    sets = {k: TensorDataset(torch.from_numpy((x[i] - mean) / std), torch.from_numpy(y[i])) for k, i in parts.items()}

    labels = sets["train"].tensors[1]
    prior = labels.mean().item()
    weights = torch.where(labels == 1, 0.5 / prior, 0.5 / (1 - prior))
    sampler = WeightedRandomSampler(weights.double(), num_samples=len(labels), replacement=True)
    train = DataLoader(sets["train"], batch_size=128, sampler=sampler, drop_last=True)
    valid, test = DataLoader(sets["valid"], batch_size=1000), DataLoader(sets["test"], batch_size=1000)
    shift = float(np.log(prior / (1 - prior)))
    print(f"share of positives {prior:.3f}, log-odds shift {shift:.2f}")

    model = net(x.shape[1])
    criterion = nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=2)
    stopper = EarlyStopping(patience=6)
    valid_label = sets["valid"].tensors[1].numpy()
    for epoch in range(30):
        model.train()
        total, count = 0.0, 0
        for xb, yb in train:
            loss = criterion(model(xb).squeeze(1), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(yb), count + len(yb)
        ap = average_precision(probabilities(model, valid, shift), valid_label)
        plateau.step(ap)
        if epoch % 5 == 0:
            print(f"epoch {epoch:2d}  balanced loss {total / count:.4f}  valid AP {ap:.4f}")
        if stopper.should_stop(ap, model):
            print(f"stopped after epoch {epoch}")
            break
    model.load_state_dict(stopper.weights)
    threshold = best_threshold(probabilities(model, valid, shift), valid_label)
    prob, label = probabilities(model, test, shift), sets["test"].tensors[1].numpy()
    flagged = prob >= threshold
    print(f"test AP {average_precision(prob, label):.4f}  mean probability {prob.mean():.4f} against {label.mean():.4f}")
    print(f"precision {label[flagged].mean():.3f}  recall {flagged[label == 1].mean():.3f} at {threshold:.3f}")


if __name__ == "__main__":
    main()
