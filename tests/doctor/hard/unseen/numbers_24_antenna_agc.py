# kind: numbers
# expect: nothing
# like: clip-after-step
# why: the clipping is written by hand (adaptive, unit by unit, relative to the weights) and does not call PyTorch's;
#      it runs after backward and before the step, and the optimizer uses the clipped gradients.
"""Direction of arrival from antenna snapshots, with adaptive gradient clipping."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def snapshots(n, seed, antennas=8):
    g = torch.Generator().manual_seed(seed)
    angle = (torch.rand(n, generator=g) - 0.5) * math.pi * 0.8
    phase = math.pi * torch.arange(antennas)[None] * torch.sin(angle)[:, None]
    carrier = 2 * math.pi * torch.rand(n, 1, generator=g)
    x = torch.cat([torch.cos(phase + carrier), torch.sin(phase + carrier)], 1)
    x = x + 0.1 * torch.randn(x.shape, generator=g)
    return TensorDataset(x / 0.7, angle)


class ArrivalNet(nn.Module):
    def __init__(self, width=112):
        super().__init__()
        self.stem = nn.Linear(16, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(2))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = self.stem(x)
        for b in self.blocks:
            h = h + b(h)
        return self.out(h).squeeze(1)


def unit_norm(t):
    return t.norm(dim=1, keepdim=True) if t.dim() > 1 else t.norm()


@torch.no_grad()
def adaptive_clip(params, ratio, eps=1e-2):
    """Shrinks the gradient of each unit to at most `ratio` of the norm of its weights."""
    clipped = 0
    for p in params:
        limit = ratio * unit_norm(p).clamp(min=eps)
        norm = unit_norm(p.grad)
        factor = (limit / norm.clamp(min=1e-12)).clamp(max=1.0)
        clipped += int((factor < 1).sum())
        p.grad.mul_(factor)
    return clipped


@torch.no_grad()
def degrees(model, loader):
    model.eval()
    err = torch.cat([(model(x) - a).abs() for x, a in loader])
    return math.degrees(err.mean().item())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--ratio", type=float, default=0.05)
    ap.add_argument("--lr", type=float, default=0.02)
    args = ap.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(169)
    train = DataLoader(snapshots(3200, 1), batch_size=64, shuffle=True)
    valid = DataLoader(snapshots(800, 2), batch_size=200)
    model = ArrivalNet()
    body = [p for name, p in model.named_parameters() if not name.startswith("out")]
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs * len(train))
    for epoch in range(args.epochs):
        model.train()
        total = clipped = 0
        for x, angle in train:
            loss = nn.functional.mse_loss(model(x), angle)
            optimizer.zero_grad()
            loss.backward()
            clipped += adaptive_clip(body, args.ratio)
            optimizer.step()
            scheduler.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(train):.4f} clipped units {clipped} "
              f"valid error {degrees(model, valid):.2f} deg")


if __name__ == "__main__":
    main()
