"""What every library trains, and the arrangements that are to give the same weights.

63 samples: with batches of 8 an epoch has seven of 8 and one of 7. In cycles of four, an update has 32 and then 31 samples; in
cycles of three 24, 24 and 15, so that the last cycle is short by a whole micro-batch.
"""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

SAMPLES, FEATURES, CLASSES, WIDTH, DROPOUT = 63, 8, 4, 32, 0.2
LR, MOMENTUM = 0.1, 0.9
SEED = 0
CHECKPOINT_EVERY, KILLED_AT = 4, 13  # updates; the promise is tried with epochs of 8
Pair = tuple[Tensor, Tensor]


def data(samples: int = SAMPLES, seed: int = 1) -> Pair:
    """Noise, and the largest of its first entries."""
    x = torch.randn(samples, FEATURES, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :CLASSES].argmax(1)


class Noisy(Dataset[Pair]):
    """An augmentation: every sample comes with new noise from torch's generator."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair

    def __len__(self) -> int:
        return len(self.pair[0])

    def __getitem__(self, index: int) -> Pair:
        x = self.pair[0][index]
        return x + 0.3 * torch.randn(x.shape), self.pair[1][index]


def begin_forward() -> None:
    """Count a forward of the training, and be killed in the one that the environment names.

    The count stands in the environment as well: in the model or in a global it would be state, which Instep keeps and compares.
    """
    begun = forwards_begun() + 1
    os.environ["FORWARDS_BEGUN"] = str(begun)
    if begun == int(os.environ.get("KILLED_AT", "0")):
        time.sleep(1.0)  # as in an update of a larger model: checkpoints that are on their way reach the disk
        os.kill(os.getpid(), signal.SIGKILL)


def forwards_begun() -> int:
    return int(os.environ.get("FORWARDS_BEGUN", "0"))


class Net(nn.Module):
    """Two layers, with dropout or without."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Dropout(dropout), nn.Linear(WIDTH, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and torch.is_grad_enabled():
            begin_forward()
        logits: Tensor = self.layers(x)
        return logits


@dataclass(frozen=True)
class Task:
    """One training. The libraries take from it what they need, and do it in their own way."""

    batch: int = 8  # samples that go through the model at once
    cycle: int = 1  # of them an update
    epochs: int = 2
    random: bool = True  # shuffled, and with dropout
    augmented: bool = False
    validated: bool = False
    workers: int = 0
    folder: Path | None = None  # checkpoints are written there; a run resumes from those that are there
    killed_at: int = 0
    way: str = ""  # where a library has more than one: which

    @property
    def micro_batches(self) -> int:
        """Of an epoch."""
        return -(-SAMPLES // self.batch)

    @property
    def dropout(self) -> float:
        return DROPOUT if self.random and not self.augmented else 0.0

    def model(self) -> Net:
        return Net(self.dropout)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """SGD: AdamW would hide an error of scale."""
        return torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)

    def train_data(self) -> Dataset[Pair]:
        pair = data()
        return Noisy(pair) if self.augmented else TensorDataset(*pair)  # type: ignore[return-value]

    def valid_data(self) -> Dataset[Pair]:
        return TensorDataset(*data(20, seed=2))  # type: ignore[return-value]

    def loader(self) -> DataLoader[Pair]:
        return DataLoader(self.train_data(), batch_size=self.batch, shuffle=self.random, num_workers=self.workers)

    def valid_loader(self) -> DataLoader[Pair]:
        return DataLoader(self.valid_data(), batch_size=self.batch)


@dataclass(frozen=True)
class Trained:
    """The weights after a training, and how many micro-batches this process trained on."""

    weights: list[Tensor]
    micro_batches: int

    @classmethod
    def of(cls, net: nn.Module) -> "Trained":
        return cls([weights.detach() for weights in net.parameters()], forwards_begun())


@dataclass(frozen=True)
class Promise:
    """Two arrangements whose weights are compared."""

    title: str
    one: Task
    other: Task
    interrupted: bool = False  # `other` is killed, and then runs again in a new process

    def in_way(self, way: str) -> "Promise":
        return replace(self, one=replace(self.one, way=way), other=replace(self.other, way=way))


IN_ORDER = Task(random=False, epochs=3)
PROMISES = {
    "split": Promise(
        "4 micro-batches an update against the whole batch; the last one has 7 samples instead of 8",
        replace(IN_ORDER, batch=32),
        replace(IN_ORDER, batch=8, cycle=4),
    ),
    "short cycle": Promise(
        "3 micro-batches an update against the whole batch; the last update of an epoch has only 2",
        replace(IN_ORDER, batch=24),
        replace(IN_ORDER, batch=8, cycle=3),
    ),
    "observe": Promise("with validation after each epoch against none", Task(epochs=3), Task(epochs=3, validated=True)),
    "load": Promise(
        "2 loader workers against none, with an augmentation that draws random numbers",
        Task(augmented=True),
        Task(augmented=True, workers=2),
    ),
    "resume": Promise(
        "killed in the second epoch and resumed in a new process, against never stopped",
        Task(),
        Task(killed_at=KILLED_AT),
        interrupted=True,
    ),
}
