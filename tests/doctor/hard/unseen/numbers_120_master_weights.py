# kind: numbers
# expect: nothing
# why: The bfloat16 weights are copies of float32 masters that the optimizer steps; gradients are unscaled before they are
#   clipped, and the model's own gradients are cleared after every step, so nothing is lost or mixed.
"""Tabular regression with bfloat16 weights, float32 master weights and a dynamic loss scale, all by hand."""
import argparse
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    features: int = 24
    width: int = 96
    depth: int = 3
    epochs: int = 8
    batch: int = 64
    lr: float = 5e-4
    weight_decay: float = 0.01
    clip: float = 1.0


class ResidualMLP(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.stem = nn.Linear(cfg.features, cfg.width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(cfg.width), nn.Linear(cfg.width, cfg.width), nn.GELU(), nn.Linear(cfg.width, cfg.width))
            for _ in range(cfg.depth)
        )
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = h + block(h)
        return self.head(self.norm(h)).squeeze(-1)


class MasterWeights:
    """Keeps a float32 copy of every parameter; the optimizer steps the copies, the model gets them rounded."""

    def __init__(self, model: nn.Module, clip: float) -> None:
        self.live = [p for p in model.parameters() if p.requires_grad]
        self.masters = [p.detach().float().clone().requires_grad_() for p in self.live]
        self.clip = clip
        self.scale = 2.0**10
        self.good = 0

    @torch.no_grad()
    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        for master, p in zip(self.masters, self.live):
            master.grad = p.grad.float() / self.scale
            p.grad = None
        norm = nn.utils.clip_grad_norm_(self.masters, self.clip)
        if not torch.isfinite(norm):
            self.scale, self.good = self.scale / 2, 0
            return False
        optimizer.step()
        for master, p in zip(self.masters, self.live):
            p.copy_(master)
        self.good += 1
        if self.good % 200 == 0:
            self.scale = min(self.scale * 2, 2.0**16)
        return True


def houses(n: int, cfg: Config, seed: int) -> tuple[Tensor, Tensor]:
    rule = torch.Generator().manual_seed(88)
    w1 = torch.randn(cfg.features, 12, generator=rule) / math.sqrt(cfg.features)
    w2 = torch.randn(12, generator=rule)
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, cfg.features, generator=g)
    price = torch.sin(x @ w1) @ w2 + 0.5 * x[:, 0] * x[:, 1] + 0.1 * torch.randn(n, generator=g)
    return x, price


@torch.no_grad()
def evaluate(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    error = F.mse_loss(model(x.bfloat16()).float(), y).item()
    model.train()
    return error


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--lr", type=float, default=Config.lr)
    args = parser.parse_args()
    cfg = Config(epochs=args.epochs, lr=args.lr)
    torch.manual_seed(41)
    torch.set_num_threads(1)

    x, y = houses(4096, cfg, 1)
    valid_x, valid_y = houses(1000, cfg, 2)
    centre, spread = y.mean(), y.std()
    y, valid_y = (y - centre) / spread, (valid_y - centre) / spread
    loader = DataLoader(TensorDataset(x, y), cfg.batch, shuffle=True)

    model = ResidualMLP(cfg).bfloat16()
    masters = MasterWeights(model, cfg.clip)
    optimizer = torch.optim.AdamW(masters.masters, lr=cfg.lr, weight_decay=cfg.weight_decay)
    total_steps = cfg.epochs * len(loader)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total_steps, eta_min=cfg.lr / 20)

    best = float("inf")
    best_weights = [m.detach().clone() for m in masters.masters]
    for epoch in range(cfg.epochs):
        seen, count = 0.0, 0
        for features, target in loader:
            loss = F.mse_loss(model(features.bfloat16()).float(), target)
            (loss * masters.scale).backward()
            if masters.step(optimizer):
                schedule.step()
            seen += loss.item() * len(target)
            count += len(target)
        error = evaluate(model, valid_x, valid_y)
        if error < best:
            best = error
            best_weights = [m.detach().clone() for m in masters.masters]
        print(f"epoch {epoch} loss {seen / count:.4f} valid {error:.4f} scale {masters.scale:.0f}")

    with torch.no_grad():
        for p, kept in zip(masters.live, best_weights):
            p.copy_(kept)
    print(f"best valid {best:.4f}, with the best weights {evaluate(model, valid_x, valid_y):.4f}")


if __name__ == "__main__":
    main()
