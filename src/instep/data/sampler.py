"""Samplers: which sample stands at which place of an epoch, each a function of the seed, the epoch and the place.

Nothing is stored between epochs, so any epoch can be begun anywhere. Shuffling is computed place by place and so are draws with
replacement; the others work out an epoch as a whole, and keep it while it is read.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from instep import keys
from instep.data.order import Order
from instep.data.position import Indices
from instep.errors import DataError, DescriptionError

Epoch = Callable[[int, int], Any]  # (epoch, seed) -> indices


class Sampler(Protocol):
    """The samples of each epoch."""

    @property
    def samples(self) -> int:
        """How many places an epoch has."""

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        """The samples at the places start to stop - 1 of an epoch."""


class InOrder:
    """The data's own order."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        return np.arange(start, stop)


class Shuffled:
    """Every sample once an epoch (or the first `samples` of them), in an order that is computed."""

    def __init__(self, length: int, samples: int | None = None) -> None:
        self._length = length
        self.samples = length if samples is None else samples
        self._order = Order(length, seed=0, epoch=0)
        self._of = (0, 0)  # its seed and epoch

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        if self._of != (seed, epoch):
            self._order, self._of = Order(self._length, seed=seed, epoch=epoch), (seed, epoch)
        return self._order.slice(start, stop).copy()


class Among:
    """Some samples by their indices, shuffled."""

    def __init__(self, indices: Indices) -> None:
        self._indices = indices
        self._places = Shuffled(len(indices))
        self.samples = len(indices)

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        chosen: Indices = self._indices[self._places.slice(seed, epoch, start, stop)]
        return chosen


class Drawn:
    """Draws with replacement: place by place, each sample with the chance of its weight (None: all alike)."""

    def __init__(self, length: int, samples: int, weights: npt.NDArray[np.float64] | None = None) -> None:
        self.samples = samples
        self._length = length
        self._shares = None if weights is None else np.cumsum(weights)

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        # One 64-bit word a place. A counter-based generator makes them in blocks of four, any block at the same cost.
        generator = np.random.Philox(key=keys.for_sampler(seed, epoch))
        generator.advance(start // 4)
        words = generator.random_raw(stop - start + start % 4)[start % 4 :]
        uniform = (words >> np.uint64(11)) * 2.0**-53
        if self._shares is None:
            return np.minimum((uniform * self._length).astype(np.int64), self._length - 1)
        found = np.searchsorted(self._shares, uniform * self._shares[-1], side="right")
        drawn: Indices = np.minimum(found, self._last).astype(np.int64)
        return drawn

    @property
    def _last(self) -> int:
        """The last sample of any weight, for a draw that was rounded up to the sum of all."""
        assert self._shares is not None
        return int(np.searchsorted(self._shares, self._shares[-1]))


class Whole:
    """An epoch worked out as a whole by a function of (epoch, seed), and kept while it is read."""

    def __init__(self, function: Epoch, length: int, name: str, samples: int | None = None) -> None:
        self._function = function
        self._length = length
        self._name = name
        self._kept: tuple[int, int, Indices] | None = None
        self.samples = len(self._computed(0, 0)) if samples is None else samples

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        if self._kept is None or self._kept[:2] != (seed, epoch):
            indices = self._computed(seed, epoch)
            if len(indices) != self.samples:
                raise DataError(
                    f"sampler= gave {len(indices):,} indices for epoch {epoch} and {self.samples:,} for epoch 0; "
                    "every epoch needs the same number."
                )
            self._kept = seed, epoch, indices
        return self._kept[2][start:stop].copy()

    def _computed(self, seed: int, epoch: int) -> Indices:
        with keys.fork_rng():
            keys.seed_all(keys.for_sampler(seed, epoch))  # what it draws from the global generators comes again
            given = self._function(epoch, seed)
        return checked(given, self._length, self._name, f"sampler= in epoch {epoch}")


def checked(given: Any, length: int, name: str, who: str) -> Indices:
    """Indices that somebody gave, as an array; each must be a sample."""
    listed = given if isinstance(given, torch.Tensor | np.ndarray | range) else list(given)
    indices = np.asarray(listed)
    if indices.ndim != 1 or (len(indices) and indices.dtype.kind not in "iu"):
        raise DescriptionError(f"{who} gave {indices.dtype} of shape {indices.shape}; it has to give one whole number a place.")
    if not len(indices):
        raise DescriptionError(f"{who} gave no index at all.")
    wrong = np.flatnonzero((indices < 0) | (indices >= length))
    if len(wrong):
        raise DataError(
            f"{who} gave the index {indices[wrong[0]]} at place {wrong[0]}, which is out of range: "
            f"{name} has the samples 0 to {length - 1:,}."
        )
    return indices.astype(np.int64)


def race(weights: npt.NDArray[np.float64], samples: int, epoch: int, seed: int) -> Indices:
    """`samples` draws without replacement: each sample's time is exponential with its weight as the rate, the first ones win."""
    words = np.random.Philox(key=keys.for_sampler(seed, epoch)).random_raw(len(weights))
    uniform = ((words >> np.uint64(11)) + 1) * 2.0**-53  # above 0, so that its logarithm is finite
    with np.errstate(divide="ignore"):
        times = np.where(weights > 0, -np.log(uniform) / weights, np.inf)
    return np.argsort(times, kind="stable")[:samples]


def deal(labels: Indices, samples: int, epoch: int, seed: int) -> Indices:
    """`samples` draws with every class equally often (to within one), and each class's samples in turn, shuffled anew each time
    round; the classes then come in a random order."""
    random = np.random.Philox(key=keys.for_sampler(seed, epoch))
    classes = np.unique(labels)
    quotas = np.full(len(classes), samples // len(classes))
    quotas[: samples % len(classes)] += 1
    quotas = np.roll(quotas, epoch % len(classes))  # so that no class always has the one more
    dealt = []
    for label, quota in zip(classes, quotas, strict=True):
        members = np.flatnonzero(labels == label)
        rounds = -(-int(quota) // len(members))
        order = np.argsort(random.random_raw(rounds * len(members)).reshape(rounds, -1), axis=1, kind="stable")
        dealt.append(members[order].reshape(-1)[:quota])
    together = np.concatenate(dealt)
    return together[np.argsort(random.random_raw(samples), kind="stable")]
