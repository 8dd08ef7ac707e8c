"""View: some samples of another source, by a list of indices or by a rule; and the share that is held out for validation."""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from instep import keys
from instep.data.order import Order
from instep.data.position import Indices, Position, Source, Transform
from instep.errors import DescriptionError
from instep.text import plural

MOST_LISTED = 10_000_000  # samples up to which a held-out share is listed, 80 MB; beyond that it is computed


class Picks(Protocol):
    """Which samples of a source a view has."""

    def __len__(self) -> int: ...
    def take(self, indices: Tensor) -> Tensor: ...


class Listed:
    """The ones in a list."""

    def __init__(self, indices: Tensor) -> None:
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def take(self, indices: Tensor) -> Tensor:
        return self._indices.index_select(0, indices)


class Ranged:
    """The ones of a range, which is not written out."""

    def __init__(self, indices: range) -> None:
        self._range = indices

    def __len__(self) -> int:
        return len(self._range)

    def take(self, indices: Tensor) -> Tensor:
        return indices * self._range.step + self._range.start


class Computed:
    """The ones at some places of a shuffled order, which is computed."""

    def __init__(self, order: Order, start: int, stop: int) -> None:
        self._order, self._start, self._stop = order, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def take(self, indices: Tensor) -> Tensor:
        return torch.from_numpy(self._order.at(indices.numpy() + self._start).copy())


class View:
    """Some samples of another source."""

    def __init__(self, source: Source, picks: Picks) -> None:
        self.name = source.name
        self.in_memory = source.in_memory
        self.source = source
        self.picks = picks

    def __len__(self) -> int:
        return len(self.picks)

    def fetch(self, indices: Tensor, at: Position) -> Any:
        return self.source.fetch(self.picks.take(indices), at)

    def origin(self, indices: Tensor) -> Tensor:
        return self.source.origin(self.picks.take(indices))

    def transformed(self, transform: Transform) -> "View":
        return View(self.source.transformed(transform), self.picks)

    def check(self) -> None:
        self.source.check()

    def report_to(self, slot: Indices) -> None:
        self.source.report_to(slot)


def held_out(source: Source, share: float, seed: int) -> tuple[View, View]:
    """The source in two: what is left for training, and a share for validation, chosen by the seed alone."""
    if not 0 < share < 1:
        raise DescriptionError(f"valid={share} is no share of the training data; use a number between 0 and 1.")
    n = len(source)
    count = max(1, round(n * share))
    if count >= n:
        raise DescriptionError(f"valid={share} of {plural(n, 'sample')} leaves none to train on.")
    order = Order(n, seed=keys.for_split(seed), epoch=0)
    if n > MOST_LISTED:
        return View(source, Computed(order, count, n)), View(source, Computed(order, 0, count))
    shuffled = np.array(order[:])
    rest, kept = np.sort(shuffled[count:]), np.sort(shuffled[:count])
    return View(source, Listed(torch.from_numpy(rest))), View(source, Listed(torch.from_numpy(kept)))
