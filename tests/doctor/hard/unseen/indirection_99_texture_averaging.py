# kind: indirection
# expect: averaged-batchnorm-stale
# why: Only parameters are averaged; the average's BatchNorm statistics stay those of epoch 6 and nothing recomputes them.
"""Texture classification with a callback based trainer and weight averaging over the last epochs."""
from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    classes: int = 5
    side: int = 14
    train: int = 1600
    valid: int = 600
    batch: int = 50
    epochs: int = 14
    average_from: int = 6
    lr: float = 0.08
    seed: int = 21


def textures(n: int, s: Settings, gen: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    labels = torch.randint(0, s.classes, (n,), generator=gen)
    axis = torch.arange(s.side, dtype=torch.float32)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    angle = labels.float() / s.classes * torch.pi + 0.15 * torch.randn(n, generator=gen)
    freq = 0.9 + 0.2 * torch.rand(n, generator=gen)
    phase = 2 * torch.pi * torch.rand(n, generator=gen)
    wave = xx * angle.cos().view(-1, 1, 1) + yy * angle.sin().view(-1, 1, 1)
    img = torch.sin(freq.view(-1, 1, 1) * wave + phase.view(-1, 1, 1))
    return (img + 0.8 * torch.randn(n, s.side, s.side, generator=gen)).unsqueeze(1), labels


def conv_bn(a: int, b: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU())


def make_net(classes: int) -> nn.Module:
    body = [conv_bn(1, 16, 1), conv_bn(16, 24, 2), conv_bn(24, 32, 2)]
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes))


class Callback:
    def on_fit_start(self, trainer: "Trainer") -> None: ...
    def on_epoch_end(self, trainer: "Trainer", epoch: int) -> None: ...
    def on_fit_end(self, trainer: "Trainer") -> None: ...


class WeightAveraging(Callback):
    """Keeps the running mean of the weights seen at the ends of epochs."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        self.model: nn.Module | None = None

    @torch.no_grad()
    def on_epoch_end(self, trainer: "Trainer", epoch: int) -> None:
        if epoch < self.start:
            return
        if self.model is None:
            self.model = copy.deepcopy(trainer.model).requires_grad_(False)
        self.count += 1
        for mean, live in zip(self.model.parameters(), trainer.model.parameters()):
            mean.lerp_(live, 1.0 / self.count)

    def on_fit_end(self, trainer: "Trainer") -> None:
        if self.model is not None:
            loss, acc = trainer.validate(self.model)
            print(f"average of {self.count}: valid {loss:.4f} acc {acc:.3f}")


class Report(Callback):
    def on_epoch_end(self, trainer: "Trainer", epoch: int) -> None:
        loss, acc = trainer.validate(trainer.model)
        print(f"{epoch:02d} train {trainer.train_loss:.4f} valid {loss:.4f} acc {acc:.3f} lr {trainer.sched.get_last_lr()[0]:.4f}")


class Trainer:
    def __init__(self, model: nn.Module, s: Settings, train: DataLoader, valid: DataLoader, callbacks: list[Callback]) -> None:
        self.model, self.s, self.train_data, self.valid_data, self.callbacks = model, s, train, valid, callbacks
        self.opt = torch.optim.SGD(model.parameters(), lr=s.lr, momentum=0.9, weight_decay=5e-4)
        self.sched = torch.optim.lr_scheduler.MultiStepLR(self.opt, milestones=[s.average_from], gamma=0.5)
        self.train_loss = 0.0

    def call(self, hook: str, *args: object) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, *args)

    def fit(self) -> None:
        self.call("on_fit_start")
        for epoch in range(self.s.epochs):
            self.model.train()
            total = 0.0
            for x, y in self.train_data:
                self.opt.zero_grad(set_to_none=True)
                loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
                loss.backward()
                self.opt.step()
                total += loss.item()
            self.train_loss = total / len(self.train_data)
            self.sched.step()
            self.call("on_epoch_end", epoch)
        self.call("on_fit_end")

    @torch.inference_mode()
    def validate(self, model: nn.Module) -> tuple[float, float]:
        model.eval()
        loss, hits, seen = 0.0, 0, 0
        for x, y in self.valid_data:
            logits = model(x)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += int((logits.argmax(1) == y).sum())
            seen += len(y)
        return loss / seen, hits / seen


def main() -> None:
    s = Settings()
    torch.manual_seed(s.seed)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(s.seed)
    train_x, train_y = textures(s.train, s, gen)
    valid_x, valid_y = textures(s.valid, s, gen)
    mean, std = train_x.mean(), train_x.std()
    train = DataLoader(TensorDataset((train_x - mean) / std, train_y), s.batch, shuffle=True, drop_last=True)
    valid = DataLoader(TensorDataset((valid_x - mean) / std, valid_y), 200)
    Trainer(make_net(s.classes), s, train, valid, [Report(), WeightAveraging(s.average_from)]).fit()


if __name__ == "__main__":
    main()
