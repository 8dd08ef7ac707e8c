"""Errors: what predictions of numbers miss by (MAE, MSE, RMSE, R²), and the perplexity of predicted classes."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from instep.distributed.world import World
from instep.errors import ObjectiveError
from instep.loop.metrics.forms import as_classes, as_numbers
from instep.loop.metrics.metric import BatchSums, double
from instep.loop.torch_losses import Threshold


class Summed:
    """A state of sums, one row a batch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._sums = BatchSums()

    def reset(self, device: torch.device) -> None:
        self._sums.clear()


class Errors(Summed):
    """Σ |p − y|, Σ (p − y)² and how many there are."""

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        output, target = as_numbers(self._name, output, target)
        counted, error, _ = counted_errors(output, target, ignore_index)
        self._sums.add(counted.sum(), error.abs().sum(), error.square().sum(), device=error.device)

    def total(self, world: World | None = None) -> dict[str, float]:
        count, absolute, squared = self._sums.rows(world).sum(0).tolist()
        if not count:
            return dict.fromkeys(("mae", "mse", "rmse"), math.nan)
        return {"mae": absolute / count, "mse": squared / count, "rmse": math.sqrt(squared / count)}


class Variation(Summed):
    """For R²: of each column the errors, and how the targets vary round their mean.

    Means and squares about them are kept by batch and joined at the end: Σy² − (Σy)²/n would lose the digits of targets that are
    far from 0.
    """

    _columns = 0

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        output, target = as_numbers(self._name, output, target)
        if output.ndim not in (1, 2):
            raise ObjectiveError(
                f"{self._name} takes one prediction a sample, (n,), or one in each of k columns, (n, k); output and target have "
                f"shape {tuple(output.shape)}."
            )
        output, target = output.reshape(len(output), -1), target.reshape(len(target), -1)
        self._columns = output.shape[1]
        counted, error, target = counted_errors(output, target, ignore_index)
        count = counted.sum(0)
        mean = target.sum(0) / count.clamp(min=1)
        around = torch.where(counted, target - mean, 0).square().sum(0)
        self._sums.add(*count, *mean, *around, *error.square().sum(0), device=error.device)

    def total(self, world: World | None = None) -> float:
        """The mean over columns; nan where all targets of a column are the same."""
        rows = self._sums.rows(world)
        count, mean, around, squared = rows.reshape(len(rows), 4, self._columns).unbind(1)
        center = (count * mean).sum(0) / count.sum(0)
        spread = around.sum(0) + (count * (mean - center).square()).sum(0)
        return float(torch.where(spread > 0, 1 - squared.sum(0) / spread, math.nan).mean())


class LogLikelihood(Summed):
    """Σ −log p(target), and over how many targets."""

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        scores, index, counted = as_classes(self._name, output, target, ignore_index)
        each = F.cross_entropy(scores.to(torch.promote_types(scores.dtype, torch.float32)), index, reduction="none")
        total = torch.where(counted, each, 0).sum(dtype=double(each.device))
        self._sums.add(total, counted.sum(), device=each.device)

    def total(self, world: World | None = None) -> float:
        """The perplexity: exp of the mean."""
        total, count = self._sums.rows(world).sum(0).tolist()
        try:
            return math.exp(total / count) if count else math.nan
        except OverflowError:
            return math.inf


def counted_errors(output: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Which targets count (all, where nothing is said to be ignored), their errors and they themselves, 0 where they do not."""
    width = double(output.device)
    counted = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
    target = torch.where(counted, target.to(width), 0)
    return counted, torch.where(counted, output.detach().to(width) - target, 0), target
