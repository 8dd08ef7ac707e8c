# kind: second_phase
# expect: train-valid-overlap
# why: The second phase takes its training rows from the newest part of the whole log, which contains the rows that were held out
#      for validation in the first phase.
"""Rating model: trained on the whole history first, then tuned on the most recent interactions."""
import argparse
import logging
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Subset

log = logging.getLogger("ratings")


@dataclass
class Config:
    users: int = 400
    items: int = 300
    interactions: int = 24_000
    factors: int = 16
    batch: int = 256
    history_epochs: int = 6
    recent_epochs: int = 8
    recent_share: float = 0.35
    valid_share: float = 0.15
    lr: float = 5e-3
    recent_lr: float = 1.5e-3
    decay: float = 1e-3
    seed: int = 29


class RatingLog(Dataset):
    """Interactions in the order in which they happened; no user rates an item twice."""

    def __init__(self, cfg: Config, gen: torch.Generator) -> None:
        cells = torch.randperm(cfg.users * cfg.items, generator=gen)[: cfg.interactions]
        self.user, self.item = cells // cfg.items, cells % cfg.items
        self.day = torch.sort(torch.rand(cfg.interactions, generator=gen) * 365).values
        taste = torch.randn(cfg.users, 6, generator=gen) / 6**0.5
        style = torch.randn(cfg.items, 6, generator=gen)
        trend = 0.6 * torch.randn(cfg.items, generator=gen)
        level = 0.5 * torch.randn(cfg.users, generator=gen)
        score = (taste[self.user] * style[self.item]).sum(1) + level[self.user] + trend[self.item] * self.day / 365
        score = score + 0.5 * torch.randn(cfg.interactions, generator=gen)
        self.rating = (score - score.mean()) / score.std()

    def __len__(self) -> int:
        return len(self.rating)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.user[i], self.item[i], self.rating[i]

    def holdout(self, share: float, gen: torch.Generator) -> tuple[list[int], list[int]]:
        order = torch.randperm(len(self), generator=gen).tolist()
        n = int(len(self) * share)
        return order[n:], order[:n]

    def newest(self, share: float) -> list[int]:
        cutoff = torch.quantile(self.day, 1 - share)
        return torch.nonzero(self.day >= cutoff).flatten().tolist()


class Factorisation(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(cfg.users, cfg.factors), nn.Embedding(cfg.items, cfg.factors)
        self.user_bias, self.item_bias = nn.Embedding(cfg.users, 1), nn.Embedding(cfg.items, 1)
        self.mix = nn.Sequential(nn.Linear(cfg.factors, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
        for table in (self.user, self.item, self.user_bias, self.item_bias):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        product = self.user(user) * self.item(item)
        score = product.sum(1, keepdim=True) + self.mix(product) + self.user_bias(user) + self.item_bias(item)
        return score.squeeze(1)


class Tuner:
    def __init__(self, cfg: Config, model: nn.Module, valid: DataLoader) -> None:
        self.cfg, self.model, self.valid = cfg, model, valid
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.decay)
        self.best, self.best_weights = float("inf"), {k: v.clone() for k, v in model.state_dict().items()}

    def run(self, name: str, loader: DataLoader, epochs: int, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        for epoch in range(epochs):
            self.model.train()
            squares, seen = 0.0, 0
            for user, item, rating in loader:
                loss = F.mse_loss(self.model(user, item), rating)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                squares, seen = squares + loss.item() * len(rating), seen + len(rating)
            rmse = self.evaluate()
            log.info("%s %d train rmse %.4f valid rmse %.4f", name, epoch, (squares / seen) ** 0.5, rmse)
            if rmse < self.best:
                self.best, self.best_weights = rmse, {k: v.clone() for k, v in self.model.state_dict().items()}

    @torch.no_grad()
    def evaluate(self) -> float:
        self.model.eval()
        squares, seen = 0.0, 0
        for user, item, rating in self.valid:
            squares += float((self.model(user, item) - rating).pow(2).sum())
            seen += len(rating)
        return (squares / seen) ** 0.5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--recent-share", type=float, default=Config.recent_share)
    cfg = Config(recent_share=parser.parse_args().recent_share)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    ratings = RatingLog(cfg, gen)
    train_rows, valid_rows = ratings.holdout(cfg.valid_share, gen)
    valid = DataLoader(Subset(ratings, valid_rows), batch_size=900)
    tuner = Tuner(cfg, Factorisation(cfg), valid)

    history = DataLoader(Subset(ratings, train_rows), batch_size=cfg.batch, shuffle=True, generator=gen)
    tuner.run("history", history, cfg.history_epochs, cfg.lr)

    recent_rows = ratings.newest(cfg.recent_share)
    recent = DataLoader(Subset(ratings, recent_rows), batch_size=cfg.batch, shuffle=True, generator=gen)
    tuner.run("recent", recent, cfg.recent_epochs, cfg.recent_lr)

    tuner.model.load_state_dict(tuner.best_weights)
    log.info("final valid rmse %.4f", tuner.evaluate())


if __name__ == "__main__":
    main()
