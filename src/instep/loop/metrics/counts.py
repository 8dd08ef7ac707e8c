"""Counts: states of whole numbers: right answers, totals of each class, the confusion matrix. Exact in any order."""

from typing import Any

import torch
from torch import Tensor

from instep.data.device import readable
from instep.distributed.world import World
from instep.errors import ObjectiveError
from instep.loop.metrics.border import BORDERS, Border
from instep.loop.metrics.forms import Classified, as_classes, as_scores, by_label, classify
from instep.loop.metrics.metric import summed
from instep.loop.torch_losses import Threshold


class Counts:
    """Adds up one tensor of counts a batch."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts: Tensor | None = None
        self._kind = "classes"
        self._border: Border | None = None  # where it is left to the data

    def reset(self, device: torch.device) -> None:
        self._counts = self._border = None

    def add(self, output: Any, target: Any, *, ignore_index: int | None = None, threshold: Threshold = 0.0) -> None:
        border = self._border or Border()
        if border.add(self._name, output, target, ignore_index, threshold):
            self._border = border
            counts = torch.stack([self._count(output, target, ignore_index, value) for value in BORDERS])
        else:
            counts = self._count(output, target, ignore_index, threshold)
        if self._counts is not None and self._counts.shape != counts.shape:
            raise ObjectiveError(
                f"{self._name} met {self._counts.shape[-1]} classes in one batch and {counts.shape[-1]} in another; every batch "
                "needs the same ones."
            )
        self._counts = counts if self._counts is None else self._counts + counts

    def total(self, world: World | None = None) -> tuple[str, Tensor]:
        """What dimension 1 of the outputs holds, "classes" or "labels", and the counts."""
        assert self._counts is not None
        counts = summed(self._counts, world)
        return self._kind, counts if self._border is None else counts[self._border.index(world)]

    def _count(self, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> Tensor:
        raise NotImplementedError


class Right(Counts):
    """How many answers are right, and how many there are: by the highest score, or by the `top` highest ones."""

    def __init__(self, name: str, top: int = 1) -> None:
        super().__init__(name)
        self._top = top

    def _count(self, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> Tensor:
        if self._top > 1:
            scores, right, counted = as_classes(self._name, output, target, ignore_index)
            if scores.shape[1] < self._top:
                raise ObjectiveError(
                    f"{self._name} looks among the {self._top} highest scores, and the output of shape {tuple(scores.shape)} has "
                    f"{scores.shape[1]} classes; use a smaller number."
                )
            hits = (scores.topk(self._top, dim=1).indices == right.unsqueeze(1)).any(1) & counted
        else:
            seen = classify(self._name, output, target, ignore_index=ignore_index, threshold=threshold)
            hits, counted = (seen.chosen == seen.right) & seen.counted, seen.counted
        return torch.stack([hits.sum(), counted.sum()])


class ClassTotals(Counts):
    """Of each class or label: how often it was chosen rightly, how often it was chosen, how often it was there."""

    def _count(self, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> Tensor:
        seen = classified(self._name, output, target, ignore_index, threshold)
        self._kind = seen.kind
        if seen.kind == "labels":
            chosen, right, counted = (by_label(side.bool()) for side in (seen.chosen, seen.right, seen.counted))
            return torch.stack([(chosen & right).sum(0), (chosen & counted).sum(0), right.sum(0)])
        nothing = seen.number
        hit = seen.counted & (seen.chosen == seen.right)
        indices = (
            torch.where(hit, seen.right, nothing),
            torch.where(seen.counted, seen.chosen, nothing),
            torch.where(seen.counted, seen.right, nothing),
        )
        return torch.stack([count(index, nothing) for index in indices])


class Confusion(Counts):
    """How often class i (row) was taken for class j (column); for labels, such a table of absent and there for each."""

    def _count(self, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> Tensor:
        seen = classified(self._name, output, target, ignore_index, threshold)
        self._kind = seen.kind
        number = seen.number
        if seen.kind == "classes":
            index = torch.where(seen.counted, seen.right * number + seen.chosen, number * number)
            return count(index, number * number).reshape(number, number)
        chosen, right, counted = (by_label(side) for side in (seen.chosen, seen.right, seen.counted))
        label = torch.arange(number, device=chosen.device)
        index = torch.where(counted, label * 4 + right * 2 + chosen, number * 4)
        return count(index, number * 4).reshape(number, 2, 2)


def classified(name: str, output: Any, target: Any, ignore_index: int | None, threshold: Threshold) -> Classified:
    """The same, where it matters what dimension 1 holds."""
    scores, indices = as_scores(name, output, target, threshold)
    if scores.ndim == indices.ndim == 3 and scores.shape[1] > 1:
        raise ObjectiveError(
            f"{name} cannot tell what dimension 1 of output and target, both of shape {tuple(scores.shape)}, holds: labels, or "
            "positions. Give it a dimension of size 1 for one logit a position: (n, 1, …)."
        )
    return classify(name, output, target, ignore_index=ignore_index, threshold=threshold)


def count(index: Tensor, length: int) -> Tensor:
    """How often each of 0 to length-1 is there; `length` itself stands for what does not count."""
    index = index.flatten()
    if readable(index):
        return torch.bincount(index, minlength=length + 1)[:length]
    found = torch.zeros(length + 1, dtype=torch.int64, device=index.device)  # bincount would wait for the device
    return found.index_add_(0, index, torch.ones_like(index))[:length]
