# kind: behind indirection
# expect: nothing
# like: clip-after-step
# why: clip_grad_norm_ is called after the step, but with max_norm=inf, where it only measures; the real clipping is a
#      step pre-hook of the optimizer, which runs before every update.
"""The adding problem with an LSTM; clipping and logging are attached as hooks."""
import argparse
from functools import partial
import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def clip_hook(max_norm, optimizer, args, kwargs):
    for group in optimizer.param_groups:
        clip_grad_norm_(group["params"], max_norm)


class Adder(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.rnn = nn.LSTM(2, h, batch_first=True)
        self.out = nn.Linear(h, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1]).squeeze(1)


def adding(n, length, g):
    value = 2 * torch.rand(n, length, generator=g) - 1
    flag = torch.zeros(n, length)
    half = length // 2
    rows = torch.arange(n)
    flag[rows, torch.randint(0, half, (n,), generator=g)] = 1
    flag[rows, torch.randint(half, length, (n,), generator=g)] = 1
    return torch.stack([value / 0.577, flag], 2), (value * flag).sum(1) / 0.816


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--length", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--clip", type=float, default=1.0)
    args = ap.parse_args()
    torch.manual_seed(26)
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(260)
    x, y = adding(3840, args.length, g)
    xv, yv = adding(640, args.length, g)
    model = Adder(40)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    opt.register_step_pre_hook(partial(clip_hook, args.clip))
    measure = partial(clip_grad_norm_, max_norm=float("inf"))
    for epoch in range(args.epochs):
        model.train()
        total, norms = 0.0, []
        for idx in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = F.mse_loss(model(x[idx]), y[idx])
            loss.backward()
            opt.step()
            norms.append(measure(model.parameters()).item())
            total += loss.item() * len(idx)
        model.eval()
        with torch.no_grad():
            v = F.mse_loss(model(xv), yv).item()
        print(f"epoch {epoch:2d} train {total / len(x):.4f} valid {v:.4f} largest used gradient norm {max(norms):.3f}")


if __name__ == "__main__":
    main()
