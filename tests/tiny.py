"""Models and data so small that a test can train them many times."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from instep import Trainer

FEATURES, CLASSES, TOKENS, IGNORED = 6, 4, 5, -100


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))


class Cnn(nn.Module):
    """Two convolutions with a GroupNorm between them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.AdaptiveAvgPool2d(1)
        )
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        head: Tensor = self.head(self.body(x).flatten(1))
        return head


class Tagger(nn.Module):
    """A transformer layer over token ids (0 is padding) that classifies every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(self.embed(x), src_key_padding_mask=x == 0)
        scores: Tensor = self.head(hidden)
        return scores.transpose(1, 2)  # classes in the second dimension, as cross_entropy wants them


class Reader(nn.Module):
    """An LSTM over token ids that classifies every token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.lstm = nn.LSTM(6, 7, batch_first=True)
        self.head = nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(self.embed(x))[0])
        return scores.transpose(1, 2)


def vectors(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, FEATURES, generator=generator, dtype=torch.float64)
    return x, torch.randint(CLASSES, (n,), generator=generator)


def images(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 1, 6, 6, generator=generator, dtype=torch.float64)
    return x, torch.randint(CLASSES, (n,), generator=generator)


def sentences(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sentences of unequal length, so that the token counts of micro-batches differ."""
    x = torch.randint(1, 11, (n, TOKENS), generator=generator)
    y = torch.randint(CLASSES, (n, TOKENS), generator=generator)
    lengths = torch.randint(1, TOKENS + 1, (n, 1), generator=generator)
    padding = torch.arange(TOKENS) >= lengths
    return x.masked_fill(padding, 0), y.masked_fill(padding, IGNORED)


@dataclass(frozen=True)
class Task:
    """A model and data that go together."""

    name: str
    model: Callable[[], nn.Module]
    data: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]

    def __repr__(self) -> str:
        return self.name

    def build(self, seed: int, dtype: torch.dtype = torch.float64) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.model().to(dtype)

    def draw(self, n: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        x, y = self.data(n, torch.Generator().manual_seed(seed))
        return (x.to(dtype) if x.is_floating_point() else x), y


TASKS = [
    Task("mlp", mlp, vectors),
    Task("cnn", Cnn, images),
    Task("transformer", Tagger, sentences),
    Task("lstm", Reader, sentences),
]


# --- The smallest run: an MLP on 50 vectors

X, Y = TASKS[0].draw(50, seed=0, dtype=torch.float32)


def net(seed: int = 0) -> nn.Module:
    return TASKS[0].build(seed, torch.float32)


def make(model: nn.Module | None = None, **changes: Any) -> Trainer:
    """A Trainer of three epochs, with whatever is said otherwise."""
    model = net() if model is None else model
    arguments: dict[str, Any] = {
        "loss": cross_entropy,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "train": (X, Y),
        "epochs": 3,
        "batch_size": 16,
        "progress": False,
    }
    return Trainer(model, **(arguments | changes))


def weights(model: nn.Module) -> Tensor:
    """All parameters in one row, a copy."""
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()
