"""Trainings with known answers, written as people write them: each function builds one."""

import functools
import os
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from instep import Loss, OneCycle, Trainer

N, FEATURES, CLASSES, WORDS, LENGTH = 44, 6, 4, 11, 5


def numbers(n: int = N) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(n, FEATURES, generator=generator), torch.randint(CLASSES, (n,), generator=generator)


def images() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(N, 1, 8, 8, generator=generator), torch.randint(CLASSES, (N,), generator=generator)


def sentences() -> tuple[Tensor, Tensor]:
    """Token ids of sentences of several lengths, filled up with 0; the target of a padding is ignored."""
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(1, WORDS, (N, LENGTH), generator=generator)
    for place in range(N):
        words[place, 1 + place % LENGTH :] = 0
    return words, torch.where(words == 0, -100, (words * 7) % WORDS)


def trainer(model: nn.Module, train: Any, **more: Any) -> Trainer:
    given: dict[str, Any] = {"loss": F.cross_entropy, "epochs": 3, "batch_size": 12, "progress": False} | more
    if "objective" in given:
        del given["loss"]
    if isinstance(train, DataLoader):
        del given["batch_size"]
    return Trainer(model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2), train=train, **given)


def small(*middle: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), *middle, nn.Tanh(), nn.Linear(8, CLASSES))


# --- All promises hold


def mlp() -> Trainer:
    return trainer(small(), numbers(), valid=0.2, metrics="accuracy", schedule=OneCycle(max_lr=0.01), clip_norm=1.0)


def cnn_groupnorm() -> Trainer:
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return trainer(nn.Sequential(body, nn.Linear(4, CLASSES)), images(), loss=nn.CrossEntropyLoss(weight=torch.ones(CLASSES) / 3))


class Reader(nn.Module):
    """A transformer layer whose head is tied to its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, WORDS, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.layer(self.embed(words), src_key_padding_mask=words == 0))
        return scores.transpose(1, 2)


def transformer() -> Trainer:
    return trainer(Reader(), sentences())


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 8)
        self.lstm = nn.LSTM(8, 8, num_layers=2, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(self.embed(words))[0][:, -1])
        return scores


def lstm() -> Trainer:
    return trainer(Recurrent(), (sentences()[0], numbers()[1]))


class Straight(torch.autograd.Function):
    """Rounds, and passes gradients straight through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.round(x * 4) / 4

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0]


class Rounded(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rounded: Tensor = Straight.apply(x)  # type: ignore[no-untyped-call]
        return rounded


def custom_function() -> Trainer:
    return trainer(small(Rounded()), numbers())


class Shaken(Dataset[Any]):
    """Augmentation by the global generators, which are keyed."""

    def __init__(self) -> None:
        self.x, self.y = numbers()

    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + 0.1 * torch.randn(FEATURES) + np.random.rand(), self.y[index]


def augmented() -> Trainer:
    return trainer(small(), Shaken(), valid=numbers(9))


def dataloader() -> Trainer:
    return trainer(small(), DataLoader(TensorDataset(*numbers()), batch_size=5, shuffle=True), update_cycle=2)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return zip(*numbers(), strict=True)


def iterable() -> Trainer:
    return trainer(small(), Stream())


# --- Limits: not promised, and documented


def cnn_batchnorm() -> Trainer:
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return trainer(nn.Sequential(body, nn.Linear(4, CLASSES)), images())


def dropout() -> Trainer:
    return trainer(small(nn.Dropout(0.3)), numbers())


def contrastive() -> Trainer:
    def objective(model: nn.Module, batch: Any) -> Tensor:
        codes = F.normalize(model(batch[0]), dim=1)
        return F.cross_entropy(codes @ codes.T / 0.5, torch.arange(len(codes)))

    return trainer(small(), numbers(), objective=objective)


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


def centred() -> Trainer:
    return trainer(small(Centred()), numbers())


class Counting(nn.Module):
    """Counts its forwards in a buffer; with `uses` the count is part of what it computes."""

    calls: Tensor

    def __init__(self, uses: bool) -> None:
        super().__init__()
        self.uses = uses
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
        return x * (1 + self.calls / 100) if self.uses else x


def counting_buffer() -> Trainer:
    return trainer(small(Counting(False)), numbers())


def counting_buffer_used() -> Trainer:
    return trainer(small(Counting(True)), numbers())


def gan() -> Trainer:
    models = {"g": nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, FEATURES)), "d": nn.Linear(FEATURES, 1)}

    def real_or_not(model: Any, batch: Any) -> Tensor:
        made = model["g"](torch.randn(len(batch[0]), 3))
        scores = model["d"](torch.cat([batch[0], made.detach()], 1).reshape(-1, FEATURES))
        return F.binary_cross_entropy_with_logits(scores, torch.tensor([1.0, 0.0]).repeat(len(batch[0]))[:, None])

    def fool(model: Any, batch: Any) -> Tensor:
        scores = model["d"](model["g"](torch.randn(len(batch[0]), 3)))
        return F.binary_cross_entropy_with_logits(scores, torch.ones_like(scores))

    optimizers = {name: torch.optim.AdamW(part.parameters(), lr=1e-2) for name, part in models.items()}
    objectives = {"d": real_or_not, "g": fool}
    return Trainer(models, objective=objectives, optimizer=optimizers, train=numbers(), epochs=3, batch_size=12, progress=False)


# --- Mistakes


def token_mean() -> Trainer:
    """A mean over tokens that does not say how many."""

    def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
        mask = batch[0] != 0
        return (losses * mask).sum() / mask.sum()

    return trainer(Reader(), sentences(), objective=objective)


def token_mean_counted() -> Trainer:
    """The same, and it says how many."""

    def objective(model: nn.Module, batch: Any) -> Loss:
        losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
        mask = batch[0] != 0
        return Loss((losses * mask).sum() / mask.sum(), count=mask.sum())

    return trainer(Reader(), sentences(), objective=objective)


def summed() -> Trainer:
    return trainer(small(), numbers(), objective=lambda model, batch: F.cross_entropy(model(batch[0]), batch[1], reduction="sum"))


class OwnGenerator(Shaken):
    """Noise from a generator of its own, with a seed or without."""

    def __init__(self, seed: int | None) -> None:
        super().__init__()
        self.rng = np.random.default_rng(seed)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + float(self.rng.normal()), self.y[index]


def own_generator() -> Trainer:
    return trainer(small(), OwnGenerator(0))


def own_generator_unseeded() -> Trainer:
    return trainer(small(), OwnGenerator(None))


class Clocked(Shaken):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + time.time() % 1, self.y[index]


def clock() -> Trainer:
    return trainer(small(), Clocked())


class Drifting(Shaken):
    """Writes into what it holds: each time a sample is loaded, it is another one."""

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        row = self.x[index]
        row += 0.1
        return row, self.y[index]


def mutating() -> Trainer:
    return trainer(small(), Drifting())


class Named(Shaken):
    """Labels are numbered in the order of a set of names, which is another one in each process."""

    def __init__(self) -> None:
        super().__init__()
        names = [f"kind {place}" for place in range(N)]
        self.numbers = {name: number % CLASSES for number, name in enumerate(set(names))}
        self.y = torch.tensor([self.numbers[name] for name in names])

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.y[index]


def set_order() -> Trainer:
    return trainer(small(), Named())


class ByProcess(Shaken):
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + os.getpid() % 1000 / 1000, self.y[index]


def process_id() -> Trainer:
    return trainer(small(), ByProcess())


class Impure(nn.Module):
    """Draws from a generator that nobody keys."""

    def __init__(self) -> None:
        super().__init__()
        self.draw = functools.partial(np.random.default_rng(0).normal)

    def forward(self, x: Tensor) -> Tensor:
        return x + float(self.draw())


def unkeyed_forward() -> Trainer:
    return trainer(small(Impure()), numbers(), valid=numbers(9), evaluate_every=2)
