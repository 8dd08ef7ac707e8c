# kind: numbers
# expect: sigmoid-before-bce-logits
# why: The head squashes its output to (0, 1) with 0.5 * (1 + tanh(z / 2)), which is the sigmoid, and the criterion is
#      BCEWithLogitsLoss, so the sigmoid is applied twice.
"""Multi-label findings from short three-lead ECG segments."""
import argparse
import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

FINDINGS = ("tachycardia", "st_elevation", "wide_qrs", "t_inversion", "ectopic")


@dataclass
class Config:
    train: int = 2400
    valid: int = 600
    samples: int = 160
    batch: int = 64
    epochs: int = 7
    lr: float = 2e-3
    widths: tuple[int, ...] = field(default=(24, 32, 48))
    seed: int = 17


def bump(t: Tensor, centre: Tensor, width: Tensor) -> Tensor:
    return torch.exp(-((t - centre[:, None]) ** 2) / (2 * width[:, None] ** 2))


def make_segments(n: int, cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    prevalence = torch.tensor([0.35, 0.2, 0.25, 0.3, 0.15])
    labels = (torch.rand(n, len(FINDINGS), generator=gen) < prevalence).float()
    t = torch.linspace(0, 2.4, cfg.samples)[None]
    beat = 0.8 - 0.25 * labels[:, 0] + 0.05 * torch.randn(n, generator=gen)
    wave = torch.zeros(n, cfg.samples)
    first = 0.3 * torch.rand(n, generator=gen)
    ones = torch.ones(n)
    for k in range(6):
        at = first + k * beat
        wave += bump(t, at, 0.012 * ones + 0.014 * labels[:, 2])
        wave += 0.18 * bump(t, at - 0.12, 0.025 * ones)
        wave += (0.3 - 0.5 * labels[:, 3])[:, None] * bump(t, at + 0.22, 0.04 * ones)
        wave += 0.15 * labels[:, 1:2] * bump(t, at + 0.1, 0.04 * ones)
    stray = 0.3 + 1.8 * torch.rand(n, generator=gen)
    wave -= 0.7 * labels[:, 4:5] * bump(t, stray, 0.05 * ones)
    gains = torch.tensor([1.0, 0.7, -0.5]) * (1 + 0.2 * torch.randn(n, 3, generator=gen))
    wander = 0.1 * torch.sin(2 * math.pi * 0.4 * t + 6.28 * torch.rand(n, 1, generator=gen))
    leads = gains[:, :, None] * wave[:, None] + wander[:, None]
    return leads + 0.12 * torch.randn(n, 3, cfg.samples, generator=gen), labels


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(inputs, outputs, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm1d(outputs)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(torch.relu(self.norm(self.conv(x))))


class FindingHead(nn.Module):
    """One score per finding, kept between 0 and 1 so that the report can print it as it is."""

    def __init__(self, inputs: int, findings: int) -> None:
        super().__init__()
        self.score = nn.Linear(inputs, findings)

    def forward(self, h: Tensor) -> Tensor:
        return 0.5 * (1.0 + torch.tanh(0.5 * self.score(h)))


class FindingNet(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        sizes = (3, *cfg.widths)
        self.blocks = nn.Sequential(*(Block(a, b) for a, b in zip(sizes, sizes[1:], strict=False)))
        self.head = FindingHead(2 * cfg.widths[-1], len(FINDINGS))

    def forward(self, x: Tensor) -> Tensor:
        h = self.blocks(x)
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], 1))


def auc(score: Tensor, label: Tensor) -> float:
    positive, negative = score[label == 1], score[label == 0]
    above = (positive[:, None] > negative[None]).float() + 0.5 * (positive[:, None] == negative[None]).float()
    return float(above.mean())


class Trainer:
    def __init__(self, cfg: Config, model: nn.Module, pos_weight: Tensor) -> None:
        self.cfg, self.model = cfg, model
        self.criterion = nn.BCEWithLogitsLoss(pos_weight=pos_weight)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=cfg.epochs)

    def fit(self, train: DataLoader, valid: DataLoader) -> None:
        for epoch in range(self.cfg.epochs):
            self.model.train()
            total, seen = 0.0, 0
            for x, y in train:
                self.optimizer.zero_grad()
                loss = self.criterion(self.model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
                self.optimizer.step()
                total, seen = total + loss.item() * len(x), seen + len(x)
            self.scheduler.step()
            scores = self.evaluate(valid)
            print(f"epoch {epoch:2d} loss {total / seen:.4f} " + " ".join(f"{k} {v:.3f}" for k, v in scores.items()))

    @torch.inference_mode()
    def evaluate(self, loader: DataLoader) -> dict[str, float]:
        self.model.eval()
        pairs = [(self.model(x), y) for x, y in loader]
        score, label = torch.cat([p for p, _ in pairs]), torch.cat([y for _, y in pairs])
        return {name: auc(score[:, i], label[:, i]) for i, name in enumerate(FINDINGS)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    cfg = Config(epochs=parser.parse_args().epochs)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    (x, y), (vx, vy) = make_segments(cfg.train, cfg, gen), make_segments(cfg.valid, cfg, gen)
    mean, std = x.mean((0, 2), keepdim=True), x.std((0, 2), keepdim=True)
    train = DataLoader(TensorDataset((x - mean) / std, y), batch_size=cfg.batch, shuffle=True, generator=gen)
    valid = DataLoader(TensorDataset((vx - mean) / std, vy), batch_size=200)
    pos_weight = ((1 - y).sum(0) / y.sum(0)).clamp(max=4.0)
    Trainer(cfg, FindingNet(cfg), pos_weight).fit(train, valid)


if __name__ == "__main__":
    main()
