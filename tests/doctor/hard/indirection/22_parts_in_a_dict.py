# kind: behind indirection
# expect: nothing
# like: unregistered-module
# why: the parts stand in a plain dictionary, but no Module owns them: the optimizer is made from all of them with
#      chain, and the helper switches the mode of each, so nothing is left out.
"""Variational autoencoder whose parts are kept in a plain dictionary and used by plain functions."""
import argparse
from itertools import chain
import torch
from torch import nn
import torch.nn.functional as F


def build(d, h, z):
    return {
        "encode": nn.Sequential(nn.Linear(d, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU()),
        "mean": nn.Linear(h, z),
        "logvar": nn.Linear(h, z),
        "decode": nn.Sequential(nn.Linear(z, h), nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, d)),
    }


def set_mode(parts, training):
    for m in parts.values():
        m.train(training)


def params(parts):
    return chain.from_iterable(m.parameters() for m in parts.values())


def elbo(parts, x, beta, noise):
    h = parts["encode"](x)
    mu, lv = parts["mean"](h), parts["logvar"](h)
    z = mu + noise(mu) * torch.exp(0.5 * lv)
    rec = F.mse_loss(parts["decode"](z), x)
    kl = 0.5 * (mu.square() + lv.exp() - 1 - lv).mean()
    return rec + beta * kl, rec, kl


def faces(n, g, loadings):
    """Measurements that come from four hidden factors."""
    f = torch.randn(n, 4, generator=g)
    x = torch.sin(f @ loadings[0]) + 0.5 * f @ loadings[1] + 0.1 * torch.randn(n, 32, generator=g)
    return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--beta", type=float, default=0.02)
    args = ap.parse_args()
    torch.manual_seed(24)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(240)
    loadings = torch.randn(2, 4, 32, generator=g)
    x, xv = faces(4096, g, loadings), faces(512, g, loadings)
    mu, sd = x.mean(0), x.std(0)
    x, xv = (x - mu) / sd, (xv - mu) / sd
    parts = build(32, 96, 8)
    opt = torch.optim.Adam(params(parts), lr=1e-3)
    for epoch in range(args.epochs):
        set_mode(parts, True)
        total = 0.0
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss, _, _ = elbo(parts, x[idx], args.beta, torch.randn_like)
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        set_mode(parts, False)
        with torch.no_grad():
            _, rec, kl = elbo(parts, xv, args.beta, torch.zeros_like)
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid reconstruction {rec:.4f} kl {kl:.3f}")


if __name__ == "__main__":
    main()
