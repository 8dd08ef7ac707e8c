# kind: numbers
# expect: nothing
# like: update-below-precision
# why: the weights are bfloat16 and often do not change in a step, but the optimizer adds up in float32 master copies
#      and rounds only for the forward, so no update is lost.
"""Acoustic scene tagger with bfloat16 weights and a home-made AdamW that keeps float32 masters."""
import argparse

import torch
from torch import nn


class MasterAdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"] = 0
                    s["master"] = p.detach().float().clone()
                    s["m"], s["v"] = torch.zeros_like(s["master"]), torch.zeros_like(s["master"])
                s["t"] += 1
                g = p.grad.float()
                s["m"].lerp_(g, 1 - b1)
                s["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m_hat = s["m"] / (1 - b1 ** s["t"])
                v_hat = s["v"] / (1 - b2 ** s["t"])
                s["master"].mul_(1 - group["lr"] * group["weight_decay"])
                s["master"].addcdiv_(m_hat, v_hat.sqrt_().add_(group["eps"]), value=-group["lr"])
                p.copy_(s["master"])


class Scenes:
    """Mel-like energies; draws whole batches by random permutation."""

    def __init__(self, n, seed, classes=5, bands=40):
        g = torch.Generator().manual_seed(seed)
        proto = torch.randn(classes, bands, generator=torch.Generator().manual_seed(99))
        self.y = torch.randint(0, classes, (n,), generator=g)
        loud = 0.5 + torch.rand(n, 1, generator=g)
        self.x = loud * 0.5 * proto[self.y] + torch.randn(n, bands, generator=g)

    def batches(self, size, shuffle):
        order = torch.randperm(len(self.y)) if shuffle else torch.arange(len(self.y))
        for rows in order.split(size):
            yield self.x[rows], self.y[rows]


class Tagger(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.inner = nn.Linear(40, width)
        self.mid = nn.Linear(width, width)
        self.out = nn.Linear(width, 5)

    def forward(self, x):
        x = torch.relu(self.inner(x.to(self.inner.weight.dtype)))
        return self.out(torch.relu(self.mid(x))).float()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--lr", type=float, default=5e-4)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(12)
    train, valid = Scenes(3200, 1), Scenes(800, 2)
    model = Tagger().bfloat16()
    optimizer = MasterAdamW(model.parameters(), lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(args.epochs):
        model.train()
        total = steps = 0
        for x, y in train.batches(64, shuffle=True):
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            steps += 1
        model.eval()
        with torch.no_grad():
            hits = sum((model(x).argmax(1) == y).sum().item() for x, y in valid.batches(200, shuffle=False))
        print(f"epoch {epoch:2d} loss {total / steps:.4f} accuracy {hits / 800:.3f}")


if __name__ == "__main__":
    main()
