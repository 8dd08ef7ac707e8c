# kind: numbers
# expect: nothing
# why: Might be accused of same-batch-every-step, batch-mixed, leaf-written-in-place or not-shuffled: the partial likelihood needs whole risk sets so each step takes all training data sorted by time, and the group lasso is a proximal step after the optimizer's.
"""Survival analysis: a small net under the Cox partial likelihood, input columns selected by a proximal group lasso."""
import copy
import math

import numpy as np
import torch
from torch import nn


def patients(n, rng, columns=20):
    x = rng.normal(size=(n, columns)) * rng.uniform(0.5, 30, columns) + rng.normal(size=columns) * 10
    z = (x - x.mean(0)) / x.std(0)
    risk = 0.9 * z[:, 0] - 0.7 * z[:, 3] + 0.6 * np.maximum(z[:, 5], 0) + 0.4 * z[:, 0] * (z[:, 7] > 0)
    event_time = rng.exponential(np.exp(-risk)) * 10
    censor_time = rng.exponential(14.0, n)
    time = np.minimum(event_time, censor_time)
    return x.astype(np.float32), time.astype(np.float32), (event_time <= censor_time)


class Cohort:
    """Sorted by falling time, so the risk set of a patient is every row up to and including its own."""

    def __init__(self, x, time, event, mean, std):
        order = np.argsort(-time, kind="stable")
        self.x = torch.from_numpy((x[order] - mean) / std)
        self.time, self.event = torch.from_numpy(time[order]), torch.from_numpy(event[order])

    def partial_likelihood(self, log_risk):
        at_risk = torch.logcumsumexp(log_risk, dim=0)
        return (at_risk - log_risk)[self.event].mean()

    def concordance(self, log_risk):
        earlier = (self.time[:, None] < self.time[None, :]) & self.event[:, None]
        higher = (log_risk[:, None] > log_risk[None, :]).float() + 0.5 * (log_risk[:, None] == log_risk[None, :]).float()
        return (higher * earlier).sum().item() / earlier.sum().item()


class RiskNet(nn.Module):
    def __init__(self, columns, width=24):
        super().__init__()
        self.first = nn.Linear(columns, width)
        self.rest = nn.Sequential(nn.Tanh(), nn.Dropout(0.2), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1, bias=False))

    def forward(self, x):
        return self.rest(self.first(x)).squeeze(-1)


@torch.no_grad()
def shrink_columns(weight, amount):
    """Proximal operator of amount * sum of column norms: small columns become exactly zero."""
    norms = weight.norm(dim=0, keepdim=True)
    weight.mul_((1 - amount / norms.clamp_min(1e-12)).clamp_min(0))


@torch.no_grad()
def evaluate(net, cohort):
    net.eval()
    log_risk = net(cohort.x)
    return cohort.partial_likelihood(log_risk).item(), cohort.concordance(log_risk)


def learning_rate(step, steps, peak, warmup=30):
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(10)
    rng = np.random.default_rng(10)
    x, time, event = patients(2200, rng)
    shuffled = rng.permutation(len(x))
    rows = np.split(shuffled, [1300, 1700])
    mean, std = x[rows[0]].mean(0), x[rows[0]].std(0)
    train, valid, test = (Cohort(x[r], time[r], event[r], mean, std) for r in rows)
    print(f"{int(train.event.sum())} events among {len(train.x)} training patients")

    net, steps, strength = RiskNet(x.shape[1]), 600, 0.06
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    best, kept, best_step, patience = math.inf, None, 0, 300
    for step in range(steps):
        rate = learning_rate(step, steps, peak=0.2)
        for group in optimizer.param_groups:
            group["lr"] = rate
        net.train()
        loss = train.partial_likelihood(net(train.x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shrink_columns(net.first.weight, rate * strength)
        if step % 10 == 9:
            held_out, concordance = evaluate(net, valid)
            if held_out < best:
                best, best_step, kept = held_out, step, copy.deepcopy(net.state_dict())
            if step % 100 == 99:
                alive = int((net.first.weight.norm(dim=0) > 0).sum())
                print(f"step {step + 1}  train {loss.item():.4f}  valid {held_out:.4f}  c-index {concordance:.3f}  columns {alive}")
            if step - best_step >= patience:
                break
    net.load_state_dict(kept)
    chosen = (net.first.weight.detach().norm(dim=0) > 0).nonzero().flatten().tolist()
    print(f"weights of step {best_step + 1}, columns {chosen}")
    print("test likelihood %.4f, c-index %.3f" % evaluate(net, test))


if __name__ == "__main__":
    main()
