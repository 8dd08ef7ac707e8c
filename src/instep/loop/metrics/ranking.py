"""Ranking: the area under the ROC curve, and average precision. They need every score at once, so all are kept until the end.

Ties are counted as they are: a tie between a positive and a negative is half a right order.
"""

import math
from typing import Any

import torch
from torch import Tensor

from instep.distributed.world import World
from instep.loop.metrics.counts import classified
from instep.loop.metrics.forms import as_scores, by_label
from instep.loop.metrics.metric import double
from instep.loop.torch_losses import Threshold

Total = list[tuple[Tensor, Tensor]]  # of each class or label: its scores, and whether it is there


class Scores:
    """The scores of every sample, on the device, until the end of an evaluation."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._batches: list[tuple[Tensor, Tensor, Tensor]] = []  # scores (m, k), positive (m, k), counted (m, k)

    def reset(self, device: torch.device) -> None:
        self._batches = []

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        seen = classified(self._name, output, target, ignore_index, threshold)
        scores = as_scores(self._name, output, target, threshold)[0].detach()
        scores = scores.to(double(scores.device))
        if seen.kind == "labels":
            self._batches.append((by_label(scores), by_label(seen.right).bool(), by_label(seen.counted)))
            return
        right, counted = seen.right.flatten()[:, None], seen.counted.flatten()[:, None]
        if scores.ndim > seen.right.ndim and seen.number > 2:
            scores = by_label(scores.log_softmax(1))
            positive = right == torch.arange(seen.number, device=right.device)
            self._batches.append((scores, positive, counted.expand_as(positive)))
            return
        if scores.ndim > seen.right.ndim:
            scores = scores[:, 1] - scores[:, 0]  # in the order of the probability of class 1, without its rounding near 1
        self._batches.append((scores.flatten()[:, None], right.bool(), counted))

    def total(self, world: World | None = None) -> Total:
        batches = [tuple(part.cpu() for part in batch) for batch in self._batches]
        if world is not None:
            batches = [batch for by_rank in world.gather_objects(batches) for batch in by_rank]
        scores, positive, counted = (torch.cat([batch[part] for batch in batches]) for part in range(3))
        return [(scores[counted[:, k], k], positive[counted[:, k], k]) for k in range(scores.shape[1])]


def auroc(scores: Tensor, positive: Tensor) -> float:
    """The share of pairs of a positive and a negative that are in the right order; nan where there are no pairs."""
    if scores.isnan().any():
        return math.nan
    up, down = _by_value(scores, positive)  # from the lowest score to the highest
    below = down.cumsum(0) - down
    pairs = int(up.sum()) * int(down.sum())
    return int((up * (2 * below + down)).sum()) / (2 * pairs) if pairs else math.nan


def average_precision(scores: Tensor, positive: Tensor) -> float:
    """Σ (recallᵢ − recallᵢ₋₁) · precisionᵢ over all thresholds; nan where nothing is positive."""
    if scores.isnan().any() or not positive.any():
        return math.nan
    up, down = (side.flip(0) for side in _by_value(scores, positive))
    hits = up.cumsum(0)
    precision = hits.double() / (hits + down.cumsum(0))
    return float((up * precision).sum() / hits[-1])


WAYS = {"auroc": auroc, "average_precision": average_precision}


def per_class(what: str, total: Total) -> dict[str, float]:
    """By the index of the class; two classes have one value, that of class 1."""
    values = [WAYS[what](scores, positive) for scores, positive in total]
    return {"1": values[0]} if len(values) == 1 else {str(index): value for index, value in enumerate(values)}


def average(what: str, total: Total) -> float:
    """The mean over classes, each against all others; those that have no value are left out."""
    return float(torch.tensor(list(per_class(what, total).values()), dtype=torch.float64).nanmean())


def _by_value(scores: Tensor, positive: Tensor) -> tuple[Tensor, Tensor]:
    """How many positives and negatives have each value, from the lowest to the highest."""
    values, place = scores.unique(sorted=True, return_inverse=True)
    every = torch.bincount(place, minlength=len(values))
    up = torch.bincount(place[positive], minlength=len(values))
    return up, every - up
