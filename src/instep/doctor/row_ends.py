"""Rows of sequences that are filled up at one end: where they end, or begin, and whether inputs and targets do so together."""

from typing import NamedTuple

import torch
from torch import Tensor


class Filled(NamedTuple):
    """Rows that are filled up with one value, at the end or at the beginning."""

    lengths: list[int]  # of the rows without what fills them up
    width: int
    late: bool  # at the end
    certain: bool  # runs of several lengths, and the value stands nowhere else


def tail_lengths(filler: Tensor) -> Tensor:
    """How many of the last entries of each row are True, without a gap."""
    return filler.flip(1).int().cumprod(1).sum(1)


def filled(filler: Tensor, *, late: bool) -> Filled | None:
    """The same of a matrix that is True where the value stands; None where no row is filled up."""
    tails = tail_lengths(filler if late else filler.flip(1))
    if not bool((tails > 0).any()):
        return None
    certain = int(filler.sum()) == int(tails.sum()) and are_several(tails)
    return Filled((filler.shape[1] - tails).tolist(), filler.shape[1], late, certain)


def are_several(tails: Tensor) -> bool:
    """Whether many rows end in runs, of three lengths or more."""
    return int((tails >= 2).sum()) >= 0.3 * len(tails) and torch.unique(tails).numel() >= 3


def end_alike(lengths: list[int], given: Filled) -> bool:
    """Whether rows end at the same places, give or take the one that shifting by one costs."""
    if not lengths or len(lengths) != len(given.lengths):
        return False
    return sum(abs(a - b) <= 1 for a, b in zip(lengths, given.lengths, strict=True)) >= 0.8 * len(lengths)


def covers(lengths: list[int], width: int, given: Filled) -> bool:
    """Whether targets are one and the same value wherever the input is certainly filled up, and perhaps before."""
    if not given.certain or not lengths or len(lengths) != len(given.lengths) or abs(width - given.width) > 1:
        return False
    return all(a <= b + 1 for a, b in zip(lengths, given.lengths, strict=True))
