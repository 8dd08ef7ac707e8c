# kind: behind indirection
# expect: detached-loss
# also: nothing-trainable, dead-parameter, constant-loss
# why: the loss reuses the dice metric, whose decorator switches gradients off, and the trainer "repairs" the error with
#      requires_grad_(True); backward then ends at the loss itself and no weight ever gets a gradient.
"""Blob segmentation with a dice objective."""
import argparse
import functools
import torch
from torch import nn

METRICS = {}


def metric(name):
    def deco(fn):
        @functools.wraps(fn)
        @torch.no_grad()
        def wrapped(*a, **k):
            return fn(*a, **k)
        METRICS[name] = wrapped
        return wrapped
    return deco


@metric("dice")
def soft_dice(logits, mask):
    p = logits.sigmoid()
    inter = (p * mask).sum((1, 2, 3))
    return ((2 * inter + 1) / (p.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()


class Objective:
    def __init__(self, name):
        self.metric = METRICS[name]

    def __call__(self, logits, mask):
        loss = 1.0 - self.metric(logits, mask)
        return loss if loss.requires_grad else loss.requires_grad_(True)


def blobs(n, size=24):
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    cx, cy = (4 + (size - 8) * torch.rand(n, 1, 1) for _ in range(2))
    r = 3 + 3 * torch.rand(n, 1, 1)
    mask = (((xx - cx) ** 2 + (yy - cy) ** 2) < r ** 2).float()[:, None]
    img = mask * 1.2 + 0.6 * torch.randn(n, 1, size, size)
    return (img - img.mean()) / img.std(), mask


def unet():
    conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
    return nn.Sequential(conv(1, 12), nn.MaxPool2d(2), conv(12, 24), nn.Upsample(scale_factor=2), conv(24, 12), nn.Conv2d(12, 1, 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch", type=int, default=16)
    args = ap.parse_args()
    torch.manual_seed(6)
    torch.set_num_threads(1)
    x, m = blobs(960)
    xv, mv = blobs(160)
    model, objective = unet(), Objective("dice")
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch):
            opt.zero_grad()
            loss = objective(model(x[idx]), m[idx])
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            d = METRICS["dice"](model(xv), mv).item()
        print(f"epoch {epoch} loss {total / len(x):.4f} valid dice {d:.4f}")


if __name__ == "__main__":
    main()
