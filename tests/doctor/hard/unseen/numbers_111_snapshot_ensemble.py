# kind: numbers
# expect: nothing
# why: might be accused of diverging-loss, schedule-wrong-unit and best-weights-aliased; warm restarts lift the rate and for a while the loss, the schedule is given fractional epochs at every batch, and each snapshot is a clone taken when the rate is lowest.
"""Snapshot ensemble with warm restarts on a tangled two-dimensional problem."""
import math

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import DataLoader, TensorDataset

CYCLE_EPOCHS, CYCLES, ARMS = 6, 4, 4


def arms(n, rng):
    """Interleaved spiral arms with radial noise, embedded in eight dimensions."""
    label = rng.integers(0, ARMS, n)
    radius = np.sqrt(rng.uniform(0.05, 1.0, n))
    angle = 2 * np.pi * label / ARMS + 3.5 * radius + rng.normal(0, 0.36, n)
    flat = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return flat, label


def to_tensors(flat, label, mixing, mean=None, std=None):
    x = torch.from_numpy(flat @ mixing).float()
    if mean is None:
        mean, std = x.mean(0), x.std(0)
    return (x - mean) / std, torch.from_numpy(label), mean, std


def network():
    layers, width = [], 8
    for size in (96, 96, 48):
        layers += [nn.Linear(width, size, bias=False), nn.BatchNorm1d(size), nn.ReLU()]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, ARMS))


def take_snapshot(model):
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


@torch.no_grad()
def probabilities(model, snapshot, x):
    model.eval()
    return functional_call(model, snapshot, (x,)).softmax(dim=-1)


def score(mean_probability, y):
    picked = mean_probability[torch.arange(len(y)), y]
    return -picked.clamp_min(1e-9).log().mean().item(), (mean_probability.argmax(-1) == y).float().mean().item()


def train(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9, nesterov=True, weight_decay=2e-4)
    schedule = CosineAnnealingWarmRestarts(optimizer, T_0=CYCLE_EPOCHS, eta_min=1e-4)
    loss_fn = nn.CrossEntropyLoss()
    snapshots = []
    for epoch in range(CYCLE_EPOCHS * CYCLES):
        model.train()
        total, count = 0.0, 0
        for i, (x, y) in enumerate(loader):
            loss = loss_fn(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step(epoch + (i + 1) / len(loader))
            total, count = total + loss.item() * len(y), count + len(y)
        if (epoch + 1) % CYCLE_EPOCHS == 0:
            snapshots.append(take_snapshot(model))
        print(f"epoch {epoch:2d} train loss {total / count:.4f} lr {schedule.get_last_lr()[0]:.4f}")
    return snapshots


def main():
    torch.set_num_threads(1)
    rng = np.random.default_rng(77)
    torch.manual_seed(77)
    mixing = rng.normal(size=(2, 8)) / math.sqrt(2)
    x_train, y_train, mean, std = to_tensors(*arms(3000, rng), mixing)
    x_valid, y_valid, *_ = to_tensors(*arms(800, rng), mixing, mean, std)
    x_test, y_test, *_ = to_tensors(*arms(1500, rng), mixing, mean, std)
    loader = DataLoader(TensorDataset(x_train, y_train), batch_size=64, shuffle=True, drop_last=True)

    model = network()
    snapshots = train(model, loader)
    members = torch.stack([probabilities(model, s, x_valid) for s in snapshots])
    for i, member in enumerate(members):
        print(f"snapshot {i} valid %.4f %.3f" % score(member, y_valid))
    # The last k snapshots are used; k is chosen on the validation data.
    k = min(range(1, CYCLES + 1), key=lambda k: score(members[-k:].mean(0), y_valid)[0])
    test_members = torch.stack([probabilities(model, s, x_test) for s in snapshots[-k:]])
    print(f"last {k} snapshots, test %.4f %.3f" % score(test_members.mean(0), y_test))


if __name__ == "__main__":
    main()
