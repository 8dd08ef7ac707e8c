# kind: behind indirection
# expect: dropout-in-eval
# why: The "drop" op of the pipeline is functools.partial(F.dropout, p=...), whose training flag defaults to True, so model.eval() does not turn it off and validation is measured with dropout active.
"""Tabular classifier whose layers are assembled from a textual op specification."""
import functools
import re

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(8)

SPEC = "linear:30-96 | norm | gelu | drop:0.4 | linear:96-96 | gelu | drop:0.4 | linear:96-8"

OPS = {
    "gelu": lambda: F.gelu,
    "drop": lambda p: functools.partial(F.dropout, p=float(p)),
    "norm": lambda: lambda h: F.layer_norm(h, h.shape[-1:]),
}


def compose(*fns):
    return functools.reduce(lambda f, g: lambda h: g(f(h)), fns)


class Pipeline(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.layers = nn.ModuleList()
        stages = [self._parse(token.strip()) for token in spec.split("|")]
        self._run = compose(*stages)

    def _parse(self, token):
        name, *args = re.split("[:-]", token)
        if name == "linear":
            layer = nn.Linear(int(args[0]), int(args[1]))
            self.layers.append(layer)
            return layer
        return OPS[name](*args)

    def forward(self, x):
        return self._run(x)


def make_data(n, seed):
    g = torch.Generator().manual_seed(99)
    centres = 0.55 * torch.randn(8, 30, generator=g)
    g.manual_seed(seed)
    y = torch.randint(8, (n,), generator=g)
    return TensorDataset(centres[y] + torch.randn(n, 30, generator=g), y)


def evaluation(fn):
    @functools.wraps(fn)
    def wrapped(model, *args):
        was = model.training
        model.eval()
        with torch.no_grad():
            result = fn(model, *args)
        model.train(was)
        return result
    return wrapped


@evaluation
def report(model, loader):
    nll, hits, count = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        nll += F.cross_entropy(logits, y, reduction="sum").item()
        hits += (logits.argmax(1) == y).sum().item()
        count += len(y)
    return nll / count, hits / count


def main():
    train = DataLoader(make_data(3072, 1), batch_size=64, shuffle=True)
    valid = DataLoader(make_data(1024, 2), batch_size=256)
    model = Pipeline(SPEC)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for epoch in range(6):
        for x, y in train:
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        nll, acc = report(model, valid)
        print(f"epoch {epoch} train loss {loss.item():.3f} valid nll {nll:.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
