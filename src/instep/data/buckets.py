"""Buckets: batches of samples of about the same length, so that little is padded; every sample once an epoch.

The shuffled order of an epoch is taken in stretches of `STRETCH` batches. In a stretch the samples are sorted by length and cut
into batches, and the batches come in a random order. So which sample stands at a place is a function of the seed, the epoch and
the place, and a place costs no more than its stretch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep import keys
from instep.data.data_source import BucketBy
from instep.data.order import Order
from instep.data.position import Indices, Source
from instep.data.sources.columns import Columns, Rows
from instep.data.sources.files import Stored
from instep.data.sources.samples import Samples
from instep.data.sources.target import Targeted
from instep.data.sources.view import View
from instep.data.structure import entries
from instep.errors import DataError, DescriptionError

STRETCH = 64  # batches that are sorted together: more of them pad less, and mix samples less


class Bucketed:
    """Every sample once an epoch, in batches of similar lengths. What it gives for a place depends on the batch size."""

    def __init__(self, lengths: Indices, batch_size: int) -> None:
        self.samples = len(lengths)
        self._lengths = lengths
        self._batch_size = batch_size
        self._order = Order(self.samples, seed=0, epoch=0)
        self._of = (0, 0)  # its seed and epoch
        self._kept: tuple[int, int, int, Indices] | None = None

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        size = STRETCH * self._batch_size
        if start == stop:
            return np.empty(0, np.int64)
        parts = []
        for number in range(start // size, -(-stop // size)):
            first = number * size
            parts.append(self._stretch(seed, epoch, number)[max(start - first, 0) : stop - first])
        return np.concatenate(parts)

    def _stretch(self, seed: int, epoch: int, number: int) -> Indices:
        """The samples of a stretch in their order, kept while it is read."""
        if self._kept is None or self._kept[:3] != (seed, epoch, number):
            if self._of != (seed, epoch):
                self._order, self._of = Order(self.samples, seed=seed, epoch=epoch), (seed, epoch)
            first = number * STRETCH * self._batch_size
            samples = self._order.slice(first, min(first + STRETCH * self._batch_size, self.samples))
            key = keys.for_sampler(seed, epoch) ^ number
            self._kept = seed, epoch, number, arrange(samples, self._lengths[samples], self._batch_size, key)
        return self._kept[3]


def arrange(samples: Indices, lengths: Indices, batch_size: int, key: int) -> Indices:
    """Sorted by length (of one length in the order they came), in batches that come in random order; a smaller one stays last.

    The smaller batch takes samples of a random length, not always the longest.
    """
    random = np.random.Philox(key=key)
    by_length = samples[np.argsort(lengths, kind="stable")]
    rest = len(samples) % batch_size
    batches = len(samples) // batch_size
    cut = int(random.random_raw(1)[0] % np.uint64(batches + 1)) * batch_size
    last, full = by_length[cut : cut + rest], np.delete(by_length, slice(cut, cut + rest))
    order = np.argsort(random.random_raw(batches), kind="stable")
    return np.concatenate([full.reshape(batches, batch_size)[order].reshape(-1), last])


@dataclass(frozen=True, eq=False)
class Buckets:
    """The lengths of all samples; `for_batches` makes a sampler of them."""

    lengths: Indices

    @property
    def samples(self) -> int:
        return len(self.lengths)

    def slice(self, seed: int, epoch: int, start: int, stop: int) -> Indices:
        raise AssertionError("which sample stands at a place depends on the batch size")

    def for_batches(self, batch_size: int) -> Bucketed:
        return Bucketed(self.lengths, batch_size)


def buckets_for(by: BucketBy, source: Source) -> Buckets:
    """The lengths that `bucket_by=` says: given, or taken from each sample once; in a share of the data those of its samples."""
    if isinstance(source, View):
        picks = source.picks.take(torch.arange(len(source))).numpy()
        if not isinstance(by, str | int) and not callable(by) and len(by) == len(source):
            return Buckets(_as_lengths(by, source))
        return Buckets(buckets_for(by, source.source).lengths[picks])
    if isinstance(source, Targeted):
        return buckets_for(by, source.source)
    return Buckets(_as_lengths(by, source))


def _as_lengths(by: BucketBy, source: Source) -> Indices:
    n = len(source)
    found: Any = by if not isinstance(by, str | int) and not callable(by) else _lengths_of(by, source)
    try:
        lengths = np.asarray(found)
    except (TypeError, ValueError):
        lengths = np.empty(0, object)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iuf" or len(lengths) != n:
        raise DescriptionError(
            f"bucket_by= has lengths of shape {lengths.shape} and type {lengths.dtype}, and {source.name} has {n:,} samples; "
            "give one length a sample."
        )
    if lengths.dtype.kind == "f" and not np.isfinite(lengths).all():
        raise DescriptionError("bucket_by= has a length that is no finite number.")
    return lengths


def _lengths_of(by: str | int | Callable[[Any], float], source: Source) -> list[float]:
    """The length of each sample: of one entry, or what a function says. Samples that lie in columns are not put together."""
    data: Any = Rows(source) if isinstance(source, Columns) else source.dataset if isinstance(source, Samples) else None
    if data is None:
        raise DescriptionError(f"bucket_by= cannot read the lengths of {source.name}; pass one length a sample: bucket_by=[…].")
    if not callable(by) and isinstance(data, Rows) and isinstance(data.source, Columns):
        return [_length(part) for part in _column(data.source, by)]
    if by in (getattr(data, "column_names", None) or ()):  # a data set of Hugging Face, column by column
        return [_length(part) for part in data.with_format(None)[by]]
    with keys.fork_rng():
        return [_length_of_sample(by, data[index], index, source.name) for index in range(len(source))]


def _length_of_sample(by: str | int | Callable[[Any], float], sample: Any, index: int, name: str) -> float:
    try:
        return by(sample) if callable(by) else _length(dict(entries(sample))[by])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        shown = getattr(by, "__name__", repr(by))
        raise DataError(f"bucket_by={shown} finds no length in sample {index} of {name}: {error!r}.") from error


def _column(source: Columns, by: str | int) -> Any:
    """A column by its name, or by its number."""
    columns = {0: source.structure} if isinstance(source.structure, Tensor | Stored | list) else dict(entries(source.structure))
    if by not in columns:
        raise DescriptionError(f"bucket_by={by!r} is no column of {source.name}; it has {', '.join(map(repr, columns))}.")
    column = columns[by]
    return column.rows(torch.arange(len(column))) if isinstance(column, Stored) else column


def _length(part: Any) -> float:
    """A number stands for itself, a sequence for how many entries it has."""
    if isinstance(part, Tensor | np.ndarray):
        return float(part) if part.ndim == 0 else len(part)
    return float(part) if isinstance(part, int | float) else len(part)
