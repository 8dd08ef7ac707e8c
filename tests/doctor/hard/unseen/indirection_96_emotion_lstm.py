# kind: indirection
# expect: dropout-in-eval
# why: The variational dropout is a plain function reached through a table of regularisers; it knows nothing of model.training and
#      keeps dropping features in eval mode.
"""Emotion of an utterance from prosody and cepstral frames; recurrent network with one dropout mask per utterance."""
import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    train: int = 1600
    valid: int = 400
    frames: int = 36
    features: int = 16
    emotions: int = 5
    hidden: int = 48
    regulariser: str = "locked"
    p: float = 0.3
    batch: int = 32
    epochs: int = 8
    lr: float = 2e-3
    seed: int = 33


def make_utterances(n: int, cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    emotion = torch.randint(cfg.emotions, (n,), generator=gen)
    e = emotion.float()[:, None]
    time = torch.linspace(0, 1, cfg.frames)
    phase = 0.6 * torch.randn(n, 1, generator=gen)
    pitch = 0.4 * torch.sin(2 * math.pi * time * (1 + 0.5 * e) + phase) + 0.2 * (e - 2) * time
    energy = 0.5 * torch.cos(2 * math.pi * time * (3 - 0.4 * e) + phase)
    mixing = torch.randn(2, cfg.features, generator=torch.Generator().manual_seed(4))
    x = torch.stack([pitch, energy], 2) @ mixing
    speaker = 0.5 * torch.randn(n, 1, cfg.features, generator=gen)
    return x + speaker + 0.8 * torch.randn(x.shape, generator=gen), emotion


def locked_mask(x: Tensor, p: float) -> Tensor:
    """The same features are dropped at every frame of an utterance."""
    keep = torch.rand(x.shape[0], 1, x.shape[2], dtype=x.dtype, device=x.device) >= p
    return x * keep / (1 - p)


def unchanged(x: Tensor, p: float) -> Tensor:
    return x


REGULARISERS: dict[str, Callable[..., Tensor]] = {"locked": locked_mask, "none": unchanged}


class EmotionNet(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.regularise = partial(REGULARISERS[cfg.regulariser], p=cfg.p)
        self.project = nn.Linear(cfg.features, cfg.hidden)
        self.layers = nn.ModuleList(nn.LSTM(cfg.hidden, cfg.hidden, batch_first=True) for _ in range(2))
        self.attend = nn.Linear(cfg.hidden, 1)
        self.classify = nn.Linear(cfg.hidden, cfg.emotions)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.project(x))
        for layer in self.layers:
            h, _ = layer(self.regularise(h))
        weight = torch.softmax(self.attend(h), dim=1)
        return self.classify((weight * h).sum(1))


class Meter:
    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.count = 0

    def add(self, n: int, **values: float) -> None:
        self.count += n
        for key, value in values.items():
            self.sums[key] = self.sums.get(key, 0.0) + value * n

    def read(self) -> dict[str, float]:
        return {key: value / self.count for key, value in self.sums.items()}


def train_epoch(model: nn.Module, loader: DataLoader, optimizer: torch.optim.Optimizer) -> dict[str, float]:
    model.train()
    meter = Meter()
    for x, y in loader:
        optimizer.zero_grad(set_to_none=True)
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        meter.add(len(x), loss=loss.item(), acc=float((logits.argmax(1) == y).float().mean()))
    return meter.read()


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader) -> dict[str, float]:
    model.eval()
    meter = Meter()
    for x, y in loader:
        logits = model(x)
        meter.add(len(x), loss=float(F.cross_entropy(logits, y)), acc=float((logits.argmax(1) == y).float().mean()))
    return meter.read()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--regulariser", choices=sorted(REGULARISERS), default=Config.regulariser)
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    args = parser.parse_args()
    cfg = Config(regulariser=args.regulariser, epochs=args.epochs)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    (x, y), (vx, vy) = make_utterances(cfg.train, cfg, gen), make_utterances(cfg.valid, cfg, gen)
    mean, std = x.mean((0, 1)), x.std((0, 1))
    train = DataLoader(TensorDataset((x - mean) / std, y), batch_size=cfg.batch, shuffle=True, generator=gen)
    valid = DataLoader(TensorDataset((vx - mean) / std, vy), batch_size=100)

    model = EmotionNet(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=2)
    for epoch in range(cfg.epochs):
        seen = train_epoch(model, train, optimizer)
        held = evaluate(model, valid)
        scheduler.step(held["acc"])
        print(f"epoch {epoch} train {seen['loss']:.4f}/{seen['acc']:.3f} valid {held['loss']:.4f}/{held['acc']:.3f}")


if __name__ == "__main__":
    main()
