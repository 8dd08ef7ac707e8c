# kind: behind indirection
# expect: stale-optimizer
# also: parameter-not-optimized, dead-parameter
# why: the weight-norm plugin replaces every weight by two new parameters after the optimizer was made; the optimizer
#      keeps the old weights, which the model no longer has, so only the biases learn.
"""Tabular regression; plugins named on the command line are applied to the trainer before fitting."""
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm

PLUGINS = {}


def plugin(fn):
    PLUGINS[fn.__name__] = fn
    return fn


@plugin
def weightnorm(trainer):
    trainer.model.apply(lambda m: weight_norm(m) if isinstance(m, nn.Linear) else m)


@plugin
def warm(trainer):
    trainer.schedulers.append(torch.optim.lr_scheduler.LinearLR(trainer.opt, 0.2, 1.0, total_iters=30))


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.schedulers = []

    def use(self, names):
        for n in names:
            PLUGINS[n](self)
        return self

    def step(self, x, y):
        self.model.train()
        self.opt.zero_grad()
        loss = F.mse_loss(self.model(x).squeeze(1), y)
        loss.backward()
        self.opt.step()
        for s in self.schedulers:
            s.step()
        return loss.item()

    @torch.no_grad()
    def score(self, x, y):
        self.model.eval()
        return F.mse_loss(self.model(x).squeeze(1), y).item()


def friedman(n):
    u = torch.rand(n, 8)
    y = 10 * torch.sin(3.1416 * u[:, 0] * u[:, 1]) + 20 * (u[:, 2] - 0.5) ** 2 + 10 * u[:, 3] + 5 * u[:, 4] + torch.randn(n)
    return (u - 0.5) * 12 ** 0.5, (y - 14.4) / 5.0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--plugins", nargs="*", default=["weightnorm", "warm"])
    ap.add_argument("--epochs", type=int, default=18)
    args = ap.parse_args()
    torch.manual_seed(17)
    torch.set_num_threads(1)
    x, y = friedman(4096)
    xv, yv = friedman(1024)
    net = nn.Sequential(nn.Linear(8, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 1))
    trainer = Trainer(net, lr=2e-3).use(args.plugins)
    for epoch in range(args.epochs):
        losses = [trainer.step(x[i], y[i]) for i in torch.randperm(len(x)).split(64)]
        print(f"epoch {epoch:2d} train {sum(losses) / len(losses):.4f} valid {trainer.score(xv, yv):.4f}")


if __name__ == "__main__":
    main()
