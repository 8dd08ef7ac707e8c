"""Fine-tune low-rank adapters on top of a frozen layer."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(Adapted(nn.Linear(8, 16), args.rank), nn.ReLU(), Adapted(nn.Linear(16, 4), args.rank))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.steps)
    mapping = torch.randn(8, 4)
    for step in range(args.steps):
        x = torch.randn(16, 8)
        y = (x @ mapping).argmax(1)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(trainable, 1.0)
        for p in trainable:
            p.grad = None
        optimizer.step()
        scheduler.step()
        if step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
