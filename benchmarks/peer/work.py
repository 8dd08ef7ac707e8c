"""The work that every contestant does: models, data and the order of the samples, the same for all.

The order is Instep's own, `instep.data.Order`: all others get it ready made, as a sampler, so that every contestant sees the
same batches and must end with the same weights. The data can be learnt; a contestant whose loss does not fall has not trained.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

Kind = Literal["samples", "tokens", "resume", "checkpoint"]
Data = tuple[Tensor, Tensor]
VOCABULARY, SEQUENCE, IGNORED = 256, 64, -100
SAMPLE_NS = 200_000  # of processor time for one sample of the slow data set


class Tokens(nn.Module):
    """A transformer of two layers; gives (samples, vocabulary, sequence), as cross_entropy takes it."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layers(self.embedding(x)))
        return logits.transpose(1, 2)


class Marked(nn.Module):
    """A large model, two thirds of it frozen, that notes when each of its forwards begins: the same clock in every library."""

    frozen: Tensor

    def __init__(self, frozen: int, layers: int, width: int = 2048) -> None:
        super().__init__()
        self.register_buffer("frozen", torch.zeros(frozen, width))
        self.layers = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)), nn.Linear(width, 10))
        self.marks: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        self.marks.append(time.perf_counter())
        logits: Tensor = self.layers(0.02 * x + self.frozen[0])  # small inputs: AdamW moves 2048 weights at once
        return logits

    def checkpoint_bytes(self) -> int:
        """Weights, buffers, and the two moments of AdamW."""
        return self.frozen.nbytes + 3 * sum(weights.nbytes for weights in self.parameters())


def mlp(*widths: int) -> nn.Module:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def small_mlp() -> nn.Module:
    return mlp(784, 128, 10)


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 7 * 7, 10)),
    )


def classes(samples: int, *shape: int) -> Data:
    """Samples of ten classes: noise round a centre of each class."""
    generator = torch.Generator().manual_seed(1)
    centres = torch.randn(10, *shape, generator=generator)
    y = torch.randint(10, (samples,), generator=generator)
    return centres[y] * 0.3 + torch.randn(samples, *shape, generator=generator), y


def flat(samples: int) -> Data:
    return classes(samples, 784)


def short(samples: int) -> Data:
    return classes(samples, 4)


def sentences(samples: int) -> Data:
    """Tokens and what follows from each; sentences have 8 to 64 tokens, the rest is padding that the loss ignores."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(VOCABULARY, (samples, SEQUENCE), generator=generator)
    lengths = torch.randint(8, SEQUENCE + 1, (samples, 1), generator=generator)
    return x, ((x * 3 + 1) % VOCABULARY).where(torch.arange(SEQUENCE) < lengths, IGNORED)


class Slow(Dataset[Data]):
    """A data set whose samples take 200 µs of Python each, by the clock of the processor: also on a busy machine."""

    def __init__(self, data: Data) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data[0])

    def __getitem__(self, index: int) -> Data:
        end = time.thread_time_ns() + SAMPLE_NS
        while time.thread_time_ns() < end:
            pass
        return self.data[0][index], self.data[1][index]


@dataclass(frozen=True)
class Work:
    """One row of the table."""

    title: str
    samples: int
    batch: int
    model: Callable[[], nn.Module]
    data: Callable[[int], Data]
    kind: Kind = "samples"
    pieces: int = 1  # micro-batches of an update
    workers: int = 0
    processes: int = 1
    threads: tuple[int, ...] = (1, 2)
    turns: int = 1  # measurements in a round: more where one is short
    most_rounds: int = 99  # fewer where one is long
    fresh: bool = False  # a process of its own, timed from its start to its end
    start: int = 0  # updates done before the resumed one, or between two checkpoints
    epochs: int = 1
    only: tuple[str, ...] = ()  # who takes part, where that is not everybody

    def quick(self) -> "Work":
        """The same, small: to see that everything runs."""
        samples = max(2, self.samples // 10 // self.batch) * self.batch  # whole batches: plain DDP cannot share out others
        if self.kind == "checkpoint":
            return replace(self, model=lambda: Marked(2560, 1), samples=self.samples // 10, start=self.start // 10)
        return replace(self, samples=samples, start=self.start // 10, turns=1)


WORKS: dict[str, Work] = {
    "mlp-64": Work("MLP 784-128-10, batch 64", 12_800, 64, small_mlp, flat, turns=2),
    "mlp-512": Work("MLP 784-128-10, batch 512", 12_800, 512, small_mlp, flat, turns=2),
    "cnn": Work("CNN on 1×28×28, batch 64", 1_920, 64, cnn, lambda n: classes(n, 1, 28, 28), turns=2),
    "transformer": Work(*("transformer, 4 micro-batches, by tokens", 512, 16, Tokens, sentences), kind="tokens", pieces=4),
    "epochs": Work("ten epochs of an MLP, batch 64", 12_800, 64, small_mlp, flat, epochs=10, only=("instep", "instep-defaults")),
    "workers": Work(
        *("200 µs of Python a sample, 2 workers", 3_200, 64, lambda: mlp(64, 32, 10), lambda n: classes(n, 64)),
        workers=2,
        threads=(1,),
    ),
    "start": Work(
        *("a process: import, an epoch of 1,000", 1_000, 64, small_mlp, flat),
        fresh=True,
        threads=(1,),
        most_rounds=3,
    ),
    "resume-early": Work(
        *("resumed at 1 % of an epoch of 10⁷", 10_000_000, 4096, lambda: mlp(4, 10), short),
        kind="resume",
        threads=(1,),
        most_rounds=2,
        start=24,
    ),
    "resume": Work(
        *("resumed at 50 % of an epoch of 10⁷", 10_000_000, 4096, lambda: mlp(4, 10), short),
        kind="resume",
        threads=(1,),
        most_rounds=2,
        start=1220,
    ),
    "checkpoint": Work(
        *("a checkpoint of 300 MB every 50 updates", 150 * 8, 8, lambda: Marked(24_576, 2), lambda n: classes(n, 2048)),
        kind="checkpoint",
        threads=(1, 2),
        most_rounds=2,
        start=50,
    ),
    "processes": Work(
        *("two processes (gloo), batch 256", 24_576, 256, lambda: mlp(784, 512, 512, 10), flat),
        processes=2,
        threads=(1,),
    ),
}


@dataclass
class Job:
    """A work made ready for one measurement: a fresh model, the data, the order; rank and folder of this process."""

    work: Work
    model: nn.Module
    data: Data
    order: list[int]
    folder: Path
    rank: int = 0

    @property
    def batch(self) -> int:
        """Samples of an update in this process."""
        return self.work.batch // self.work.processes

    @property
    def updates(self) -> int:
        return -(-self.work.samples // self.work.batch)

    def optimizer(self, parameters: Iterable[nn.Parameter] | None = None) -> torch.optim.AdamW:
        return torch.optim.AdamW(self.model.parameters() if parameters is None else parameters, **ADAMW)

    def dataset(self) -> Dataset[Any]:
        return Slow(self.data) if self.work.workers else TensorDataset(*self.data)

    def own_order(self) -> list[int]:
        """The samples of this process: its part of every batch."""
        if self.work.processes == 1:
            return self.order
        starts = range(self.rank * self.batch, len(self.order), self.work.batch)
        return [index for start in starts for index in self.order[start : start + self.batch]]

    def loader(self, *, whole: bool = False) -> DataLoader[Any]:
        """What a script would hand to a library, with the order as its sampler; `whole` for one that shares it out itself."""
        order = self.order if whole else self.own_order()
        return DataLoader(self.dataset(), batch_size=self.batch, sampler=order, num_workers=self.work.workers)

    def shuffled_loader(self) -> DataLoader[Any]:
        """A loader that draws its own order: for the works where that is part of what is timed."""
        generator = torch.Generator().manual_seed(0)
        return DataLoader(self.dataset(), batch_size=self.batch, shuffle=True, generator=generator)

    def token_losses(self, batch: Data, model: nn.Module | None = None) -> Iterator[Tensor]:
        """The losses of a batch's micro-batches, weighted by their tokens: together the mean over the batch."""
        x, y = batch
        model = model or self.model
        tokens = (y != IGNORED).sum()
        for piece, target in zip(x.chunk(self.work.pieces), y.chunk(self.work.pieces), strict=True):
            yield cross_entropy(model(piece), target, reduction="sum") / tokens


ADAMW: dict[str, Any] = {"lr": 1e-3, "weight_decay": 0.01, "fused": True}  # for every contestant that takes torch's optimizers


def final_loss(model: nn.Module, data: Data) -> float:
    """The loss on the first samples, in eval mode; measured outside every library."""
    model.eval()
    with torch.no_grad():
        loss = cross_entropy(model(data[0][:256]), data[1][:256]).item()
    model.train()
    return loss
