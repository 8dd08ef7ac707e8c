# kind: in a second phase
# expect: diverging-loss
# also: exploding-updates
# why: The second stage applies the linear scaling rule to a rate that was already scaled and keeps the momentum, so its learning rate is far beyond stability and the loss climbs to many times the level reached in stage one.
"""Two-stage training: small batches first, then large batches with a scaled rate."""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(5)


@dataclass
class Stage:
    name: str
    steps: int
    batch: int
    warmup: int


BASE_LR, BASE_BATCH = 0.02, 32
STAGES = [Stage("small", 260, 64, 20), Stage("large", 160, 512, 20)]


def scaled(lr, batch, reference):
    return lr * batch / reference


class Regressor(nn.Module):
    def __init__(self, d=16, h=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.out = nn.Linear(h, 1)

    def forward(self, x):
        return self.out(self.body(x)).squeeze(-1)


def target_fn(x):
    return torch.sin(x[:, 0] * 1.5) + 0.5 * x[:, 1] * x[:, 2] + 0.3 * x[:, 3]


def make_split(n, g):
    x = torch.randn(n, 16, generator=g)
    return x, target_fn(x) + 0.05 * torch.randn(n, generator=g)


def batches(x, size, steps, g):
    for _ in range(steps):
        idx = torch.randint(len(x), (size,), generator=g)
        yield idx


def set_lr(opt, lr):
    for group in opt.param_groups:
        group["lr"] = lr


@torch.no_grad()
def valid_mse(model, x, y):
    model.eval()
    value = F.mse_loss(model(x), y).item()
    model.train()
    return value


def main():
    g = torch.Generator().manual_seed(17)
    xt, yt = make_split(4096, g)
    xv, yv = make_split(1024, g)
    model = Regressor()
    opt = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9)

    lr = BASE_LR
    for stage in STAGES:
        lr = scaled(lr, stage.batch, BASE_BATCH)
        running = None
        for i, idx in enumerate(batches(xt, stage.batch, stage.steps, g)):
            set_lr(opt, lr * min(1.0, (i + 1) / stage.warmup))
            loss = F.mse_loss(model(xt[idx]), yt[idx])
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            value = loss.item()
            running = value if running is None else 0.9 * running + 0.1 * value
            if (i + 1) % 40 == 0:
                print(f"{stage.name} step {i + 1:3d} loss {running:.3f} "
                      f"valid mse {valid_mse(model, xv, yv):.3f}")


if __name__ == "__main__":
    main()
