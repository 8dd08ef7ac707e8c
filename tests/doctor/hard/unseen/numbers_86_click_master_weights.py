# kind: numbers
# expect: nothing
# why: The bfloat16 model is only a working copy of float32 master weights held by the optimizer; gradients are unscaled before they
#      are clipped, and the hand-written sigmoid goes to plain binary_cross_entropy in float32.
"""Click prediction for a news feed; forward and backward in bfloat16, weights and optimizer state in float32."""
import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    users: int = 200
    articles: int = 200
    impressions: int = 26_000
    valid_share: float = 0.15
    context: int = 8
    factors: int = 16
    batch: int = 256
    epochs: int = 5
    lr: float = 6e-3
    decay: float = 1e-2
    scale: float = 256.0
    max_norm: float = 1.0
    seed: int = 61


def make_log(cfg: Config, gen: torch.Generator) -> dict[str, Tensor]:
    cells = torch.randperm(cfg.users * cfg.articles, generator=gen)[: cfg.impressions]
    user, article = cells // cfg.articles, cells % cfg.articles
    context = torch.randn(cfg.impressions, cfg.context, generator=gen)
    taste, topic = torch.randn(cfg.users, 5, generator=gen), torch.randn(cfg.articles, 5, generator=gen)
    logit = 1.2 * (taste[user] * topic[article]).sum(1) + context @ torch.randn(cfg.context, generator=gen) * 0.5 - 0.7
    click = (torch.rand(cfg.impressions, generator=gen) < torch.sigmoid(logit)).float()
    return {"user": user, "article": article, "context": context, "click": click}


class ClickModel(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.user, self.article = nn.Embedding(cfg.users, cfg.factors), nn.Embedding(cfg.articles, cfg.factors)
        self.deep = nn.Sequential(nn.Linear(3 * cfg.factors + cfg.context, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
        for table in (self.user, self.article):
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, user: Tensor, article: Tensor, context: Tensor) -> Tensor:
        u, a = self.user(user), self.article(article)
        joined = torch.cat([u, a, u * a, context.to(u.dtype)], dim=1)
        return (self.deep(joined) + (u * a).sum(1, keepdim=True)).squeeze(1).float()


def squash(z: Tensor) -> Tensor:
    return (1.0 / (1.0 + torch.exp(-z.clamp(-30, 30)))).clamp(1e-6, 1 - 1e-6)


class MasterWeights:
    """Float32 weights that are optimized; the low precision model receives a rounded copy after each step."""

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        self.cfg = cfg
        self.names = [name for name, _ in model.named_parameters()]
        self.master = [p.detach().clone().float().requires_grad_(True) for p in model.parameters()]
        tables = [m for n, m in zip(self.names, self.master, strict=True) if n in ("user.weight", "article.weight")]
        rest = [m for n, m in zip(self.names, self.master, strict=True) if n not in ("user.weight", "article.weight")]
        self.optimizer = torch.optim.AdamW(
            [{"params": tables, "weight_decay": cfg.decay}, {"params": rest, "weight_decay": 0.0}], lr=cfg.lr
        )
        self.model = model.to(torch.bfloat16)

    def backward(self, loss: Tensor) -> None:
        self.model.zero_grad(set_to_none=True)
        (loss * self.cfg.scale).backward()

    @torch.no_grad()
    def step(self) -> float:
        for m, p in zip(self.master, self.model.parameters(), strict=True):
            assert p.grad is not None
            m.grad = p.grad.float() / self.cfg.scale
        norm = nn.utils.clip_grad_norm_(self.master, self.cfg.max_norm)
        self.optimizer.step()
        for m, p in zip(self.master, self.model.parameters(), strict=True):
            p.copy_(m)
        return float(norm)


def batches(log: dict[str, Tensor], size: int, gen: torch.Generator) -> Iterator[dict[str, Tensor]]:
    for rows in torch.randperm(len(log["click"]), generator=gen).split(size):
        yield {key: value[rows] for key, value in log.items()}


@torch.no_grad()
def evaluate(model: nn.Module, log: dict[str, Tensor]) -> tuple[float, float]:
    model.eval()
    p = squash(model(log["user"], log["article"], log["context"]))
    order = p.argsort()
    ranks = torch.empty_like(p, dtype=torch.float64)
    ranks[order] = torch.arange(1, len(p) + 1, dtype=torch.float64)
    clicks = log["click"].bool()
    n, m = int(clicks.sum()), int((~clicks).sum())
    area = (float(ranks[clicks].sum()) - n * (n + 1) / 2) / (n * m)
    return float(F.binary_cross_entropy(p, log["click"])), area


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(epochs=parser.parse_args().epochs)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    log = make_log(cfg, gen)
    order = torch.randperm(cfg.impressions, generator=gen)
    cut = int(cfg.impressions * cfg.valid_share)
    train, valid = ({k: v[rows] for k, v in log.items()} for rows in (order[cut:], order[:cut]))

    weights = MasterWeights(ClickModel(cfg), cfg)
    model = weights.model
    for epoch in range(cfg.epochs):
        total = 0.0
        for batch in batches(train, cfg.batch, gen):
            model.train()
            p = squash(model(batch["user"], batch["article"], batch["context"]))
            loss = F.binary_cross_entropy(p, batch["click"])
            weights.backward(loss)
            norm = weights.step()
            total += loss.item() * len(p)
        entropy, area = evaluate(model, valid)
        print(f"epoch {epoch} loss {total / len(train['click']):.4f} valid {entropy:.4f} auc {area:.3f} norm {norm:.3f}")


if __name__ == "__main__":
    main()
