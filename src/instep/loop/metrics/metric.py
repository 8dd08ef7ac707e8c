"""Metric: a number over all samples of an evaluation, read from what was added up over its batches.

Several metrics may read one state: precision, recall and F1 count the same things, once.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from instep.distributed.world import World, in_turn
from instep.loop.objective import Loss
from instep.loop.torch_losses import Threshold

Table = list[Any]  # rows of whole numbers: a confusion matrix
Gives = Literal["number", "parts", "table"]


class State(Protocol):
    """What is added up over the batches of one evaluation. Nothing is read from the device before `total`."""

    def reset(self, device: torch.device) -> None: ...

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        """Take in a batch: `ignore_index` marks targets that do not count, a single output above `threshold` means 1.

        None is what most losses leave unsaid: -100 for classes, nothing for numbers. `threshold=None` says that outputs are
        scores of classes in dimension 1, whatever the target looks like.
        """

    def total(self, world: World | None = None) -> Any:
        """What all batches give; those of all processes where a world shares them."""


@dataclass(frozen=True)
class Metric:
    """A state, and how the metric is read from its total: a number, a mapping of numbers, or a table."""

    state: State
    read: Callable[[Any], Any]
    direction: Callable[[str], bool | None]  # of a part, "" for the whole: whether more is better; None: nobody knows
    gives: Gives | None = "number"  # None: only its value tells

    @staticmethod
    def of(state: State, read: Callable[[Any], Any], *, more_is_better: bool | None, gives: Gives = "number") -> "Metric":
        return Metric(state, read, lambda part: more_is_better, gives)


def start(metrics: Mapping[str, Metric], device: torch.device) -> None:
    """Forget what was added up."""
    for state in _states(metrics):
        state.reset(device)


def add(metrics: Mapping[str, Metric], loss: Loss) -> None:
    """Take in what a model gave for a batch."""
    for state in _states(metrics):
        state.add(loss.output, loss.target, ignore_index=loss.ignore_index, threshold=loss.threshold)


def values(metrics: Mapping[str, Metric], world: World | None = None) -> dict[str, Any]:
    """The value of each metric over all batches; of all processes where a world shares them."""
    totals = {id(state): state.total(world) for state in _states(metrics)}
    return {name: metric.read(totals[id(metric.state)]) for name, metric in metrics.items()}


def _states(metrics: Mapping[str, Metric]) -> Iterable[State]:
    return {id(metric.state): metric.state for metric in metrics.values()}.values()


def higher_is_better(metrics: Mapping[str, Metric], name: str) -> bool | None:
    """What is known of the direction of the metric with this name (or of a part of it, "scores/f1"); None where nothing is."""
    first, _, part = name.partition("/")
    return metrics[first].direction(part) if first in metrics else None


class BatchSums:
    """Rows of numbers, one a batch, in double precision: added up in the order of the batches, also over processes."""

    def __init__(self) -> None:
        self._rows: list[Tensor] = []

    def clear(self) -> None:
        self._rows = []

    def add(self, *numbers: Tensor | float, device: torch.device) -> None:
        width = double(device)
        self._rows.append(torch.stack([torch.as_tensor(number, dtype=width, device=device) for number in numbers]))

    def rows(self, world: World | None) -> Tensor:
        rows = torch.stack(self._rows).cpu().double()
        if world is None:
            return rows
        return torch.tensor(in_turn(world.gather_objects(rows.tolist())), dtype=torch.float64)


def summed(counts: Tensor, world: World | None) -> Tensor:
    """Whole numbers over all processes, on the CPU."""
    counts = counts.cpu()
    return counts if world is None else torch.stack(world.gather_objects(counts)).sum(0)


def double(device: torch.device) -> torch.dtype:
    """Double precision where the device has it."""
    return torch.float32 if device.type == "mps" else torch.float64
