# kind: indirection
# expect: sigmoid-before-bce-logits
# why: The decorator on forward() maps the score to (0, 1) with 0.5 * (1 + tanh(s / 2)), which is the sigmoid, and the pointwise
#   loss applies binary_cross_entropy_with_logits to it, so the sigmoid is applied twice.
"""Click-through ranking with factorised interactions and a small deep part; validated by AUC."""
import argparse
import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    users: int = 300
    items: int = 200
    contexts: int = 12
    dim: int = 12
    width: int = 48
    epochs: int = 6
    batch: int = 128
    lr: float = 3e-3
    loss: str = "pointwise"


class Impressions(Dataset):
    def __init__(self, cfg: Config, n: int, seed: int) -> None:
        taste = torch.Generator().manual_seed(600)
        users = torch.randn(cfg.users, 4, generator=taste)
        items = torch.randn(cfg.items, 4, generator=taste)
        when = torch.randn(cfg.contexts, generator=taste)
        popular = torch.randn(cfg.items, generator=taste)
        g = torch.Generator().manual_seed(seed)
        self.user = torch.randint(cfg.users, (n,), generator=g)
        self.item = torch.randint(cfg.items, (n,), generator=g)
        self.context = torch.randint(cfg.contexts, (n,), generator=g)
        self.dense = torch.randn(n, 3, generator=g)
        logit = (users[self.user] * items[self.item]).sum(-1) + popular[self.item] + 0.5 * when[self.context] + self.dense[:, 0]
        self.click = (torch.rand(n, generator=g) < torch.sigmoid(1.5 * logit)).float()

    def __len__(self) -> int:
        return len(self.click)

    def __getitem__(self, i: int) -> dict[str, Tensor]:
        return {name: getattr(self, name)[i] for name in ("user", "item", "context", "dense", "click")}


def bounded(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The serving side stores scores as 16-bit fixed point numbers between zero and one."""

    @functools.wraps(forward)
    def wrapper(*args: object, **kwargs: object) -> Tensor:
        return 0.5 * (1.0 + torch.tanh(0.5 * forward(*args, **kwargs)))

    return wrapper


class Ranker(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        sizes = {"user": cfg.users, "item": cfg.items, "context": cfg.contexts}
        self.factors = nn.ModuleDict({k: nn.Embedding(n, cfg.dim) for k, n in sizes.items()})
        self.biases = nn.ModuleDict({k: nn.Embedding(n, 1) for k, n in sizes.items()})
        for table in self.factors.values():
            nn.init.normal_(table.weight, std=0.2)
        for table in self.biases.values():
            nn.init.zeros_(table.weight)
        self.deep = nn.Sequential(
            nn.Linear(3 * cfg.dim + 3, cfg.width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(cfg.width, 1)
        )

    @bounded
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        vectors = torch.stack([table(batch[k]) for k, table in self.factors.items()], 1)
        linear = sum(table(batch[k]).squeeze(-1) for k, table in self.biases.items())
        pairs = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(-1)
        return linear + pairs + self.deep(torch.cat([vectors.flatten(1), batch["dense"]], -1)).squeeze(-1)


def pointwise(scores: Tensor, clicks: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, clicks)


def pairwise(scores: Tensor, clicks: Tensor) -> Tensor:
    gap = scores[clicks > 0].unsqueeze(1) - scores[clicks == 0].unsqueeze(0)
    return F.softplus(-4.0 * gap).mean()


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"pointwise": pointwise, "pairwise": pairwise}


def auc(scores: Tensor, clicks: Tensor) -> float:
    ranks = scores.argsort().argsort().double() + 1
    positives = clicks.sum().item()
    negatives = len(clicks) - positives
    return (ranks[clicks > 0].sum().item() - positives * (positives + 1) / 2) / (positives * negatives)


@torch.no_grad()
def validate(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    scores, clicks = zip(*((model(batch), batch["click"]) for batch in loader))
    model.train()
    return auc(torch.cat(scores), torch.cat(clicks))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--loss", choices=sorted(LOSSES), default=Config.loss)
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    args = parser.parse_args()
    cfg = Config(loss=args.loss, epochs=args.epochs)
    torch.manual_seed(29)
    torch.set_num_threads(1)

    train = DataLoader(Impressions(cfg, 12800, 1), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(Impressions(cfg, 3000, 2), 500)
    model, criterion = Ranker(cfg), LOSSES[cfg.loss]
    tables = [*model.factors.parameters(), *model.biases.parameters()]
    optimizer = torch.optim.AdamW(
        [{"params": tables, "weight_decay": 1e-3}, {"params": model.deep.parameters(), "weight_decay": 1e-2}], lr=cfg.lr
    )
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.6)
    for epoch in range(cfg.epochs):
        total = 0.0
        for batch in train:
            optimizer.zero_grad()
            loss = criterion(model(batch), batch["click"])
            loss.backward()
            optimizer.step()
            total += loss.item()
        schedule.step()
        print(f"epoch {epoch} {cfg.loss} loss {total / len(train):.4f} valid auc {validate(model, valid):.4f}")


if __name__ == "__main__":
    main()
