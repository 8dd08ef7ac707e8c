"""Classification: precision, recall, F1, IoU and Dice, read from the totals of each class.

A class that was neither there nor chosen has no value: it is nan, and left out of a mean over classes. One that was there and
never chosen has precision 0, one that was chosen and never there has recall 0.
"""

from typing import Any

import torch
from torch import Tensor

Total = tuple[str, Tensor]


def accuracy(total: Total) -> float:
    hits, counted = total[1].tolist()
    return hits / counted if counted else float("nan")


def _ratios(what: str, hits: Tensor, chosen: Tensor, there: Tensor) -> Tensor:
    """The value of each class, or of all together."""
    upper, lower = {
        "precision": (hits, chosen),
        "recall": (hits, there),
        "f1": (2 * hits, chosen + there),
        "dice": (2 * hits, chosen + there),
        "iou": (hits, chosen + there - hits),
    }[what]
    found = torch.where(lower > 0, upper / lower, 0.0)
    return torch.where(chosen + there > 0, found, torch.nan)


def per_class(what: str, total: Total) -> dict[str, float]:
    """By the index of the class."""
    return by_index(_per_class(what, total))


def average(what: str, how: str, total: Total) -> float:
    """One number: "macro" is the mean over classes, "weighted" by how often each is there, "micro" over all answers together.

    "" is that of class 1 where there are two, "macro" elsewhere.
    """
    kind, (hits, chosen, there) = total[0], total[1].double()
    if how == "micro":
        return float(_ratios(what, hits.sum(), chosen.sum(), there.sum()))
    each = _per_class(what, total)
    if not how and kind == "classes" and len(each) == 2:
        return float(each[1])
    if how == "weighted":
        return float((each.nan_to_num() * there).sum() / there.sum())
    return float(each.nanmean())


def table(total: Total) -> list[Any]:
    rows: list[Any] = total[1].tolist()
    return rows


def by_index(values: Tensor) -> dict[str, float]:
    return {str(index): value for index, value in enumerate(values.tolist())}


def _per_class(what: str, total: Total) -> Tensor:
    hits, chosen, there = total[1].double()
    return _ratios(what, hits, chosen, there)
