# kind: indirection
# expect: batch-mixed
# also: batch-first
# why: The registry's encoder layer lacks batch_first=True but gets (batch, features, dim), so rows of the batch attend to each other.
"""Feature-token transformer for tabular regression, built from a registry of blocks."""
import argparse
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

log = logging.getLogger("tabular")
BLOCKS: dict[str, Callable[..., nn.Module]] = {}


def register(name: str) -> Callable[[Callable[..., nn.Module]], Callable[..., nn.Module]]:
    def wrap(factory: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
        BLOCKS[name] = factory
        return factory

    return wrap


@register("attention")
def attention_block(dim: int, **options: object) -> nn.Module:
    make = partial(nn.TransformerEncoderLayer, dropout=0.0, activation="gelu", norm_first=True)
    return make(dim, **options)


@register("feedforward")
def feedforward_block(dim: int, dim_feedforward: int) -> nn.Module:
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim_feedforward), nn.GELU(), nn.Linear(dim_feedforward, dim))


@dataclass
class ModelSpec:
    features: int = 10
    dim: int = 24
    blocks: list[tuple[str, dict[str, object]]] = field(
        default_factory=lambda: [
            ("attention", {"nhead": 4, "dim_feedforward": 48}),
            ("attention", {"nhead": 4, "dim_feedforward": 48}),
            ("feedforward", {"dim_feedforward": 48}),
        ]
    )


class FeatureTokenizer(nn.Module):
    """Each numeric column becomes one token: value * weight + bias."""

    def __init__(self, features: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, dim) * 0.5)
        self.bias = nn.Parameter(torch.randn(features, dim) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.unsqueeze(-1) * self.weight + self.bias


class FeatureTransformer(nn.Module):
    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.tokens = FeatureTokenizer(spec.features, spec.dim)
        self.blocks = nn.ModuleList(BLOCKS[name](spec.dim, **options) for name, options in spec.blocks)
        self.norm = nn.LayerNorm(spec.dim)
        self.out = nn.Linear(spec.dim, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x)
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h).mean(1)).squeeze(-1)


def make_table(n: int, features: int, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, features, generator=gen)
    y = x[:, 0].sin() * 1.5 + x[:, 1] ** 2 * 0.5 - x[:, 2].abs() + 0.5 * x[:, 3] * x[:, 4] + 0.4 * x[:, 5]
    return x, y + 0.1 * torch.randn(n, generator=gen)


def batches(x: torch.Tensor, y: torch.Tensor, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    order = torch.randperm(len(x))
    for start in range(0, len(order) - size + 1, size):
        rows = order[start : start + size]
        yield x[rows], y[rows]


@torch.no_grad()
def rmse(model: nn.Module, x: torch.Tensor, y: torch.Tensor, size: int) -> float:
    model.eval()
    total = sum(F.mse_loss(model(a), b, reduction="sum").item() for a, b in zip(x.split(size), y.split(size)))
    return (total / len(x)) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=4)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    spec = ModelSpec()
    gen = torch.Generator().manual_seed(args.seed)
    train_x, train_y = make_table(2560, spec.features, gen)
    valid_x, valid_y = make_table(768, spec.features, gen)
    mean, std = train_y.mean(), train_y.std()
    train_y, valid_y = (train_y - mean) / std, (valid_y - mean) / std

    model = FeatureTransformer(spec)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    steps = args.epochs * (len(train_x) // args.batch)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr * 2, total_steps=steps, pct_start=0.2)
    for epoch in range(args.epochs):
        model.train()
        total, count = 0.0, 0
        for x, y in batches(train_x, train_y, args.batch):
            loss = F.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            total, count = total + loss.item(), count + 1
        log.info("epoch %d train %.4f valid rmse %.4f", epoch, total / count, rmse(model, valid_x, valid_y, 128))


if __name__ == "__main__":
    main()
