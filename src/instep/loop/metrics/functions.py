"""Metrics that users bring: plain functions, and torchmetrics objects."""

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from instep.data.device import is_out_of_memory
from instep.data.loading.failure import user_line
from instep.data.structure import size
from instep.distributed.world import World
from instep.errors import ObjectiveError
from instep.loop.loss_forms import seen
from instep.loop.metrics.metric import BatchSums, Metric, double
from instep.loop.torch_errors import EXPLAINED, describe, is_raised_by_user
from instep.loop.torch_losses import Threshold

Function = Callable[[Any, Any], Any]


class FunctionValues:
    """The mean of a function's values: one a sample, or one a batch, which counts as often as the batch has samples.

    nan marks what does not count: it is left out of the mean.
    """

    def __init__(self, name: str, function: Function) -> None:
        self._name = name
        self._function = function
        self._sums = BatchSums()

    def reset(self, device: torch.device) -> None:
        self._sums.clear()

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        samples = size(target) if size(target) is not None else size(output)
        values = self._values(output, target, samples)
        values = values.detach().to(double(values.device))
        weight = 1 if values.ndim else (samples or 1)
        counted = ~values.isnan()
        self._sums.add(values.nansum() * weight, counted.sum() * weight, device=values.device)

    def total(self, world: World | None = None) -> float:
        total, count = self._sums.rows(world).sum(0).tolist()
        return total / count if count else math.nan

    def _values(self, output: Any, target: Any, samples: int | None) -> Tensor:
        returned = self._called(output, target)
        try:
            values = torch.as_tensor(returned)
        except (TypeError, ValueError, RuntimeError):
            values = None
        if values is None or values.is_complex() or values.shape not in ((), (samples,)):
            found = f"a {type(returned).__name__}" if values is None else f"shape {tuple(values.shape)}"
            raise ObjectiveError(
                f"metric {self._name} gave {found} for {samples} samples; it must give one value a sample, ({samples},), or one "
                "number for the batch."
            )
        return values

    def _called(self, output: Any, target: Any) -> Any:
        try:
            return self._function(output, target)
        except Exception as error:
            if not isinstance(error, EXPLAINED) or is_raised_by_user(error) or is_out_of_memory(error):
                error.add_note(f"(in the metric {self._name})")
                raise
            raise ObjectiveError(
                f"metric {self._name} failed on an output of {describe(output)} and a target of {describe(target)}: "
                f"{' '.join(str(error).split())}{user_line(error)}"
            ) from error


class TorchmetricsState:
    """A torchmetrics object: it adds up by itself, and over processes too."""

    def __init__(self, name: str, metric: Any) -> None:
        self._name = name
        self._metric = metric

    def reset(self, device: torch.device) -> None:
        self._metric.to(device)
        self._metric.reset()

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        try:
            self._metric.update(output, target)
        except (ValueError, TypeError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            raise ObjectiveError(
                f"metric {self._name} ({type(self._metric).__name__}) does not take output={seen(output)} and "
                f"target={seen(target)}: {error}"
            ) from error

    def total(self, world: World | None = None) -> Any:
        if world is None:  # torchmetrics would add up what other processes have, and they have the same
            for metric in self._metric.values() if _is_collection(self._metric) else (self._metric,):
                metric.distributed_available_fn = _alone
        return self._metric.compute()

    def direction(self, part: str) -> bool | None:
        """Whether more is better, as torchmetrics tells of this metric, or of one part of a collection."""
        metric = dict(self._metric.items()).get(part) if _is_collection(self._metric) else self._metric
        told = None if metric is None else metric.higher_is_better
        return None if told is None else bool(told)


def from_function(name: str, function: Function) -> Metric:
    return Metric.of(FunctionValues(name, function), _same, more_is_better=None)


def from_torchmetrics(name: str, metric: Any) -> Metric:
    state = TorchmetricsState(name, metric)
    return Metric(state, _same, state.direction, gives=None)


def is_torchmetrics(metric: Any) -> bool:
    """Without importing torchmetrics: who has such an object has imported it."""
    module = sys.modules.get("torchmetrics")
    return module is not None and isinstance(metric, module.Metric | module.MetricCollection)


def _is_collection(metric: Any) -> bool:
    return isinstance(metric, sys.modules["torchmetrics"].MetricCollection)


def _alone() -> bool:
    return False


def _same(total: Any) -> Any:
    return total
