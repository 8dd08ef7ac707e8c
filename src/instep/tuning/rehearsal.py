"""Rehearsal: what a finder needs of a run. The Trainer is one; the tuning room knows nothing else of it."""

from collections.abc import Generator, Sequence
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from instep.errors import DescriptionError
from instep.records import StepResult


class Rehearsal(Protocol):
    """A run that can be tried out: real updates that are counted nowhere."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def optimizer(self) -> Optimizer: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def batch_size(self) -> int:
        """The effective batch."""

    @property
    def samples(self) -> int:
        """How many samples the training data has."""

    @property
    def step(self) -> int:
        """Where the run stands: how many update cycles it has begun."""

    @property
    def stateful(self) -> Sequence[Any]:
        """What else an update changes: the schedule's drive, a GradScaler, an average of the weights."""

    def rehearse(self, start: int, *, samples: int | None = None) -> Generator[StepResult, None, None]:
        """The updates from step `start` on, one each time the next is asked for, epoch after epoch without end.

        They are the run's own: its batches and their split, its keys, precision and clipping; but no schedule, so the learning
        rate is the caller's to set, and nothing is logged, saved or counted. What they change is the caller's to put back. With
        `samples`, each update is made on one micro-batch of exactly so many samples instead.
        """


def require_one_optimizer(run: Rehearsal) -> None:
    """Raises where a run has several optimizers: it has several learning rates, and no single update to repeat."""
    optimizer: object = run.optimizer
    if not isinstance(optimizer, Optimizer):
        kind = type(optimizer).__name__
        raise DescriptionError(
            f"the run has several optimizers (a {kind}), and a finder works on a run with one; make a run of each part."
        )
