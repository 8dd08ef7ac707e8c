# kind: without a DataLoader
# expect: augmented-validation
# why: validation goes through the same sampler as training, with random crops, flips and added noise, so the validation
#      pictures differ at every reading and the curve mixes progress with chance.
"""Material classification from random patches of large synthetic micrographs."""

import argparse
import torch
from torch import nn
import torch.nn.functional as F

CLASSES = 4


def micrographs(per, g, size=64):
    xs, ys = [], []
    for c in range(CLASSES):
        noise = torch.randn(per, 1, size, size, generator=g)
        k = 1 + 2 * c
        grain = F.avg_pool2d(noise, k, stride=1, padding=k // 2) * k if k > 1 else noise
        xs.append(0.7 * grain + 0.7 * torch.randn(per, 1, size, size, generator=g))
        ys.append(torch.full((per,), c))
    return torch.cat(xs), torch.cat(ys)


class Patches:
    def __init__(self, x, y, size, noise):
        self.x, self.y, self.size, self.noise = x, y, size, noise

    def patch(self, i):
        top, left = torch.randint(0, self.x.shape[-1] - self.size + 1, (2,)).tolist()
        p = self.x[i, :, top : top + self.size, left : left + self.size]
        if torch.rand(()) < 0.5:
            p = p.flip(-1)
        return p + self.noise * torch.randn_like(p)

    def batches(self, n, shuffle):
        order = torch.randperm(len(self.x)) if shuffle else torch.arange(len(self.x))
        for idx in order.split(n):
            yield torch.stack([self.patch(i) for i in idx.tolist()]), self.y[idx]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1, stride=2),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, CLASSES),
    )


@torch.no_grad()
def evaluate(model, patches, n):
    model.eval()
    loss = hits = 0.0
    for x, y in patches.batches(n, shuffle=False):
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        hits += (out.argmax(1) == y).sum().item()
    return loss / len(patches.x), hits / len(patches.x)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=18)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--patch", type=int, default=20)
    args = ap.parse_args()
    torch.manual_seed(115)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(1150)
    train = Patches(*micrographs(160, g), args.patch, noise=0.3)
    valid = Patches(*micrographs(40, g), args.patch, noise=0.3)
    model = network()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for x, y in train.batches(args.batch, shuffle=True):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(y)
        vl, va = evaluate(model, valid, args.batch)
        print(f"epoch {epoch:2d} train {total / len(train.x):.4f} valid {vl:.4f} acc {va:.3f}")


if __name__ == "__main__":
    main()
