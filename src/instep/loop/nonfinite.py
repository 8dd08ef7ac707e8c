"""Which sample made a loss inf or nan: by the values in its batch, or else by its own loss.

The values are looked at first: that is exact, and costs one pass over the batch. Only where all of them are finite does the
batch go through the model again, in halves, and only halves whose loss is not finite are halved further.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.batch_layout import BY_SAMPLE, BatchLayout
from instep.text import listed

MOST = 4  # samples that are named one by one


@dataclass(frozen=True)
class BadValues:
    """What is not finite in one sample of one column."""

    row: int  # in the batch
    column: str
    places: tuple[tuple[int, ...], ...]  # in the sample; one empty tuple where the sample is one number
    values: tuple[str, ...]  # which of inf, -inf and nan there are

    def in_words(self, features: Sequence[str] = ()) -> str:
        """`feature 3 of column 0 is nan`"""
        column = f"column {self.column}" if self.column else "the data"
        if self.places in (((),), ((0,),)) and not features:
            return f"{column} is {self.values[0]}"
        verb = "is" if len(self.places) == 1 else "are"
        return f"{self._places(features)} of {column} {verb} {' or '.join(self.values)}"

    def _places(self, features: Sequence[str]) -> str:
        plural = "" if len(self.places) == 1 else "s"
        if len(self.places[0]) != 1:
            return f"element{plural} {listed(self.places, most=MOST)}"
        named = [f"{i} ({features[i]!r})" if i < len(features) else str(i) for (i,) in self.places]
        return f"feature{plural} {listed(named, most=MOST)}"


def bad_values(data: Any, layout: BatchLayout = BY_SAMPLE) -> list[BadValues]:
    """Every sample of a batch that holds a number that is not finite, by column and then by row."""
    return [bad for name, column in layout.columns(data) for bad in _bad_rows(name, column)]


def _bad_rows(name: str, column: Any) -> Iterator[BadValues]:
    values = torch.from_numpy(column) if isinstance(column, np.ndarray) and column.dtype.kind == "f" else column
    if not isinstance(values, Tensor) or not values.is_floating_point():
        return
    values = values.detach().reshape(len(values), -1) if values.ndim > 1 else values.detach()[:, None]
    finite = torch.isfinite(values)
    if finite.all():
        return
    for row in (~finite).any(1).nonzero().flatten().tolist():
        flat = (~finite[row]).nonzero().flatten().tolist()
        places = tuple(tuple(int(i) for i in np.unravel_index(place, column.shape[1:])) for place in flat)
        found = tuple(dict.fromkeys(str(value) for value in values[row, flat[: 2**10]].tolist()))
        yield BadValues(row, name, places, found)


def bisect(samples: int, loss_is_finite: Callable[[int, int], bool]) -> list[int]:
    """The samples whose own loss is not finite; none where that is more than a few, or where a half is not as bad as the whole.

    Takes about 2·log2(n) forwards a sample that is found.
    """
    pending, found = [(0, samples)], list[int]()
    while pending:
        start, stop = pending.pop()
        if stop - start == 1:
            found.append(start)
            if len(found) > MOST:
                return []
            continue
        middle = (start + stop) // 2
        bad = [half for half in ((start, middle), (middle, stop)) if not loss_is_finite(*half)]
        if not bad:
            return []  # it takes both halves together: no single sample is to blame
        pending += reversed(bad)
    return found


def own_losses(data: Any, loss_of: Callable[[Any], Tensor], layout: BatchLayout) -> Callable[[int, int], bool]:
    """Whether the loss of the samples from one to another is finite."""
    return lambda start, stop: bool(torch.isfinite(loss_of(layout.piece(data, start, stop))).all())
