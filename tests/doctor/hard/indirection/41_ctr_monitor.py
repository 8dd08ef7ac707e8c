# kind: behind indirection
# expect: plateau-wrong-sign
# why: The configuration makes the plateau schedule watch the AUC, while the factory in the registry builds
#      ReduceLROnPlateau with its default mode "min": every improvement counts as a bad epoch.
import functools

import numpy as np
import torch
import torch.nn as nn
from torch.optim import lr_scheduler as LR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

REGISTRY = {"opt": {}, "sched": {}, "metric": {}}


def register(kind, name, **defaults):
    def deco(obj):
        REGISTRY[kind][name] = functools.partial(obj, **defaults) if defaults else obj
        return obj
    return deco


register("opt", "adam", weight_decay=1e-6)(torch.optim.Adam)
register("opt", "adagrad")(torch.optim.Adagrad)
register("sched", "plateau", factor=0.5, patience=1, threshold=1e-3)(LR.ReduceLROnPlateau)
register("sched", "exp", gamma=0.9)(LR.ExponentialLR)


@register("metric", "logloss")
def logloss(score, label):
    return nn.functional.binary_cross_entropy_with_logits(score, label).item()


@register("metric", "auc")
def auc(score, label):
    rank = torch.empty(len(score))
    rank[score.argsort()] = torch.arange(1, len(score) + 1).float()
    pos = label.sum()
    return ((rank[label > 0].sum() - pos * (pos + 1) / 2) / (pos * (len(label) - pos))).item()


CONFIG = {
    "fields": [60, 50, 24, 16],
    "dim": 8,
    "opt": ("adam", {"lr": 4e-3}),
    "sched": ("plateau", {}),
    "watch": "auc",
    "epochs": 14,
    "batch": 128,
}


class FM(nn.Module):
    def __init__(self, fields, dim):
        super().__init__()
        self.register_buffer("shift", torch.tensor([0] + fields[:-1]).cumsum(0))
        self.vec = nn.Embedding(sum(fields), dim)
        self.lin = nn.Embedding(sum(fields), 1)
        nn.init.normal_(self.vec.weight, std=0.1)
        nn.init.normal_(self.lin.weight, std=0.01)
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, ids):
        ids = ids + self.shift
        v = self.vec(ids)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.lin(ids).sum((1, 2)) + pair + self.bias


def impressions(n, fields, seed):
    world, rng = np.random.default_rng(500), np.random.default_rng(seed)
    ids = np.stack([rng.integers(0, f, n) for f in fields], 1)
    taste = [world.normal(size=(f, 3)) for f in fields]
    picked = [t[ids[:, j]] for j, t in enumerate(taste)]
    logit = 1.5 * (picked[0] * picked[1]).sum(1) + 0.9 * picked[2][:, 0] + 0.7 * picked[3][:, 1] - 0.3
    click = rng.random(n) < 1 / (1 + np.exp(-logit))
    return torch.from_numpy(ids), torch.from_numpy(click.astype(np.float32))


class Watcher:
    """Feeds the watched metric of an epoch to whatever wants to hear it."""

    def __init__(self, name, *listeners):
        self.name, self.listeners = name, listeners

    def __call__(self, logs):
        for tell in self.listeners:
            tell(logs[self.name])


def main(cfg):
    torch.manual_seed(6)
    train = TensorDataset(*impressions(8192, cfg["fields"], 1))
    vx, vy = impressions(1500, cfg["fields"], 2)
    loader = DataLoader(train, cfg["batch"], shuffle=True)
    model = FM(cfg["fields"], cfg["dim"])
    make = lambda kind, *a: REGISTRY[kind][cfg[kind][0]](*a, **cfg[kind][1])
    opt = make("opt", model.parameters())
    watch = Watcher(cfg["watch"], make("sched", opt).step)
    for epoch in range(cfg["epochs"]):
        model.train()
        tot = 0.0
        for ids, click in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(ids), click)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() * len(ids)
        model.eval()
        with torch.no_grad():
            score = model(vx)
        logs = {name: fn(score, vy) for name, fn in REGISTRY["metric"].items()}
        watch(logs)
        print(f"{epoch:2d} train {tot / len(train):.4f} " + " ".join(f"{k} {v:.4f}" for k, v in logs.items()))


main(CONFIG)
