# kind: in a second phase
# expect: nothing
# like: optimizer-recreated
# why: lottery-ticket rounds. Every round rewinds the weights to their first values, so an optimizer with empty
#   momentum is what the method asks for; four rounds, each long enough for it to matter.
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SETTINGS = dict(rounds=4, epochs=4, prune=0.35, lr=0.05, momentum=0.9, batch=64, seed=2024)


class MaskedLinear(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.register_buffer("mask", torch.ones(o, i))

    def forward(self, x):
        return F.linear(x, self.weight * self.mask, self.bias)


def network():
    return nn.Sequential(MaskedLinear(20, 96), nn.ReLU(), MaskedLinear(96, 64), nn.ReLU(), MaskedLinear(64, 6))


def wine_like(seed):
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(6, 3, 8)) * 1.6
    y = rng.integers(6, size=4096)
    mode = rng.integers(3, size=4096)
    z = centre[y, mode] + rng.normal(size=(4096, 8))
    x = np.tanh(z @ rng.normal(size=(8, 20)) / 3) + 0.2 * rng.normal(size=(4096, 20))
    return x.astype("float32"), y


def loaders(s):
    x, y = wine_like(s["seed"])
    cut = 3072
    mean, std = x[:cut].mean(0), x[:cut].std(0)
    x = torch.from_numpy((x - mean) / std)
    y = torch.from_numpy(y)
    gen = torch.Generator().manual_seed(s["seed"])
    return (DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=s["batch"], shuffle=True, generator=gen),
            DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=512))


def evaluate(net, loader):
    net.eval()
    right = total = 0
    with torch.no_grad():
        for x, y in loader:
            right += (net(x).argmax(1) == y).sum().item()
            total += len(y)
    return right / total


def train_round(net, train, s):
    opt = torch.optim.SGD(net.parameters(), lr=s["lr"], momentum=s["momentum"])
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=s["epochs"])
    for _ in range(s["epochs"]):
        net.train()
        mean = 0.0
        for x, y in train:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            mean += loss.item() / len(train)
        sched.step()
    return mean


def prune_and_rewind(net, first, share):
    masks = {}
    for name, layer in net.named_modules():
        if isinstance(layer, MaskedLinear):
            alive = layer.mask.bool()
            size = layer.weight.detach().abs()
            bar = size[alive].quantile(share)
            masks[name + ".mask"] = ((size > bar) & alive).float()
    net.load_state_dict({**first, **masks})


def main(s):
    torch.set_num_threads(1)
    torch.manual_seed(s["seed"])
    train, valid = loaders(s)
    net = network()
    first = copy.deepcopy(net.state_dict())
    for r in range(s["rounds"]):
        if r:
            prune_and_rewind(net, first, s["prune"])
        kept = sum(m.mask.sum().item() for m in net if isinstance(m, MaskedLinear))
        loss = train_round(net, train, s)
        print(f"round {r}  weights {int(kept):5d}  train {loss:.3f}  valid acc {evaluate(net, valid):.3f}")


main(SETTINGS)
