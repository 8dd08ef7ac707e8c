# kind: numbers
# expect: targets-out-of-range
# why: Uncertain findings are coded -1 by the labeller and go into binary cross-entropy as they are, so those targets lie outside [0, 1] and reward ever lower logits.
"""Multi-label findings on small synthetic scans, labelled by a report parser."""
from __future__ import annotations

import logging
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("findings")
FINDINGS = ("opacity", "effusion", "nodule", "line", "enlarged")


@dataclass
class Options:
    scans: int = 2400
    epochs: int = 9
    batch: int = 64
    lr: float = 2e-3
    uncertain: float = 0.015
    seed: int = 47


def draw_scans(present: Tensor, gen: torch.Generator) -> Tensor:
    n = len(present)
    row, col = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    shift = torch.randn(n, 5, 2, 1, 1, generator=gen)
    image = 0.4 * torch.randn(n, 16, 16, generator=gen)
    blob = torch.exp(-((row - 5 - shift[:, 0, 0]) ** 2 + (col - 4 - shift[:, 0, 1]) ** 2) / 8)
    floor = torch.sigmoid(row - 12 + shift[:, 1, 0])
    dot = torch.exp(-((row - 8 - 2 * shift[:, 2, 0]) ** 2 + (col - 11 - 2 * shift[:, 2, 1]) ** 2) / 2)
    stripe = torch.exp(-((row - col + 2 * shift[:, 3, 0]) ** 2) / 1.5)
    middle = torch.exp(-((col - 8 - 0.5 * shift[:, 4, 1]) ** 2) / 10)
    for k, shape in enumerate((blob, floor, 1.5 * dot, stripe, middle)):
        image = image + present[:, k].view(n, 1, 1) * shape
    return image.unsqueeze(1)


class ReportDataset(Dataset):
    """Scans with the parser's labels: 1 present, 0 absent, -1 mentioned with doubt."""

    def __init__(self, opts: Options, n: int, gen: torch.Generator, parsed: bool) -> None:
        rate = torch.tensor([0.4, 0.3, 0.25, 0.3, 0.35])
        present = (torch.rand(n, 5, generator=gen) < rate).float()
        self.scans = draw_scans(present, gen)
        doubt = torch.rand(n, 5, generator=gen) < opts.uncertain
        self.labels = torch.where(doubt, -1.0, present) if parsed else present

    def normalise(self, mean: Tensor, std: Tensor) -> None:
        self.scans = (self.scans - mean) / std

    def __len__(self) -> int:
        return len(self.scans)

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return self.scans[i], self.labels[i]


class FindingNet(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width * 16, len(FINDINGS)))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x))


def auroc(score: Tensor, truth: Tensor) -> float:
    rank = score.argsort().argsort().double() + 1
    positive = truth > 0.5
    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    return float((rank[positive].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> dict[str, float]:
    model.eval()
    pairs = [(model(x), y) for x, y in loader]
    score, truth = torch.cat([s for s, _ in pairs]), torch.cat([y for _, y in pairs])
    return {name: auroc(score[:, k], truth[:, k]) for k, name in enumerate(FINDINGS)}


def positive_weight(labels: Tensor) -> Tensor:
    """Absent over present, bounded so that rare findings do not rule the loss."""
    return ((labels == 0).sum(0) / (labels == 1).sum(0)).clamp(0.5, 3.0)


def main() -> None:
    opts = Options()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    torch.manual_seed(opts.seed)
    gen = torch.Generator().manual_seed(opts.seed)
    train = ReportDataset(opts, opts.scans, gen, parsed=True)
    valid = ReportDataset(opts, 500, gen, parsed=False)
    mean, std = train.scans.mean(), train.scans.std()
    train.normalise(mean, std)
    valid.normalise(mean, std)
    train_loader = DataLoader(train, batch_size=opts.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid, batch_size=250)

    model = FindingNet()
    weight = positive_weight(train.labels)
    opt = torch.optim.AdamW(model.parameters(), lr=opts.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2 * opts.lr, total_steps=opts.epochs * len(train_loader))
    for epoch in range(opts.epochs):
        model.train()
        total = 0.0
        for x, y in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(x), y, pos_weight=weight)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total += loss.item()
        scores = evaluate(model, valid_loader)
        listed = " ".join(f"{name} {value:.3f}" for name, value in scores.items())
        log.info("epoch %d loss %.4f | auroc %s", epoch, total / len(train_loader), listed)


if __name__ == "__main__":
    main()
