"""Metrics: what is measured beside the loss, exact over batches of any size.

A metric is a function `f(output, target)` that gives one value a sample, a name that is known here, or a torchmetrics object.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from instep.data.structure import size
from instep.distributed.world import World, in_turn
from instep.errors import DescriptionError, ObjectiveError

Function = Callable[[Any, Any], Any]


class Metric(Protocol):
    """Something that is added up over the batches of one evaluation."""

    def reset(self, device: torch.device) -> None: ...

    def add(self, output: Any, target: Any) -> None: ...

    def value(self, world: World | None = None) -> Any:
        """A number, a tensor, or a mapping of them: over the batches of all processes where a world shares them."""


def accuracy(output: Tensor, target: Tensor) -> Tensor:
    """Whether each sample is classified right, as one value a sample.

    `output` holds scores with the classes in dimension 1 (or one logit a sample), `target` class indices. Where a sample has
    several positions (tokens, pixels), its value is the share of them that is right. -100 marks positions that do not count, and
    a sample without any that does is nan: it is left out of the mean.

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])).tolist()
    [1.0, 0.0]
    """
    is_index = not target.is_floating_point()
    if (
        is_index
        and output.ndim == target.ndim + 1
        and output.shape[1] > 1
        and output.shape[:1] + output.shape[2:] == target.shape
    ):
        right = output.argmax(1) == target
    elif output.shape == target.shape:
        right = (output > 0) == (target > 0.5)
    else:
        raise ObjectiveError(
            f"accuracy cannot compare an output of shape {tuple(output.shape)} with a target of shape {tuple(target.shape)}; "
            "expected scores (n, classes, …) for class indices (n, …), or logits of the target's own shape."
        )
    counted = (target != -100).reshape(len(target), -1)
    return (right.reshape(len(target), -1) & counted).sum(1) / counted.sum(1)


NAMED: Mapping[str, Function] = {"accuracy": accuracy}


class PerSample:
    """The mean of a function that gives one value a sample, nan for a sample that does not count.

    Nothing is read from the device before the end.
    """

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function
        self._sums: list[Tensor] = []  # of each batch: the sum of its values, and how many of them count

    def reset(self, device: torch.device) -> None:
        self._sums = []

    def add(self, output: Any, target: Any) -> None:
        samples = size(target) if size(target) is not None else size(output)
        values = torch.as_tensor(self._function(output, target))
        if values.shape != (samples,):
            raise ObjectiveError(
                f"metric {self._name} gave shape {tuple(values.shape)} for {samples} samples; it must give one value a sample."
            )
        values = _widened(values)
        self._sums.append(torch.stack([values.nansum(), (~values.isnan()).sum().to(values.dtype)]))

    def value(self, world: World | None = None) -> float:
        sums = torch.stack(self._sums).cpu().double()
        if world is not None:
            sums = torch.tensor(in_turn(world.gather_objects(sums.tolist())), dtype=torch.float64)
        total, samples = sums.sum(0).tolist()
        return float(total / samples) if samples else math.nan


class FromTorchmetrics:
    """A torchmetrics object: it adds up by itself."""

    def __init__(self, metric: Any) -> None:
        self._metric = metric

    def reset(self, device: torch.device) -> None:
        self._metric.to(device)
        self._metric.reset()

    def add(self, output: Any, target: Any) -> None:
        self._metric.update(output, target)

    def value(self, world: World | None = None) -> Any:
        if world is None:  # torchmetrics would add up what other processes have, and they have the same
            for metric in self._metric.values() if _is_collection(self._metric) else (self._metric,):
                metric.distributed_available_fn = _alone
        return self._metric.compute()

    def direction(self, part: str) -> bool | None:
        """Whether more is better, as torchmetrics tells of this metric, or of one part of a collection."""
        metric = dict(self._metric.items()).get(part) if _is_collection(self._metric) else self._metric
        told = None if metric is None else metric.higher_is_better
        return None if told is None else bool(told)


def as_metrics(given: Any) -> dict[str, Metric]:
    """What a user passed as `metrics=`, by name: a mapping, a name, or several names, functions and torchmetrics objects."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {name: _as_metric(name, metric) for name, metric in given.items()}
    if isinstance(given, str) or callable(given):
        given = [given]
    if not isinstance(given, Iterable):
        raise DescriptionError(f'metrics={given!r} is no metric; pass for example {{"accuracy": accuracy}} or "accuracy".')
    listed = [(_name(metric), metric) for metric in given]
    names = [name for name, _ in listed]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DescriptionError(f"two metrics are called {min(twice)}; pass a mapping that names them.")
    return {name: _as_metric(name, metric) for name, metric in listed}


def higher_is_better(metrics: Mapping[str, Metric], name: str) -> bool | None:
    """What is known of the direction of the metric with this name (or of a part of it, "scores/f1"); None where nothing is."""
    first, _, part = name.partition("/")
    metric = metrics.get(first)
    return metric.direction(part) if isinstance(metric, FromTorchmetrics) else None


def _as_metric(name: str, metric: Any) -> Metric:
    if isinstance(metric, str):
        if metric not in NAMED:
            raise DescriptionError(f"metric {metric!r} is not known; known are: {', '.join(NAMED)}. Or pass a function.")
        metric = NAMED[metric]
    if _is_torchmetrics(metric):
        return FromTorchmetrics(metric)
    if not callable(metric):
        raise DescriptionError(f"metric {name} is a {type(metric).__name__}; pass a function f(output, target), or a name.")
    return PerSample(name, metric)


def _alone() -> bool:
    return False


def _is_torchmetrics(metric: Any) -> bool:
    """Without importing torchmetrics: who has such an object has imported it."""
    module = sys.modules.get("torchmetrics")
    return module is not None and isinstance(metric, module.Metric | module.MetricCollection)


def _is_collection(metric: Any) -> bool:
    return isinstance(metric, sys.modules["torchmetrics"].MetricCollection)


def _name(metric: Any) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)


def _widened(values: Tensor) -> Tensor:
    """In double precision where the device has it."""
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)
