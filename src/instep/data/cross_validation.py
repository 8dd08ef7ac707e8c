"""Folds: data cut into k parts for a cross-validation; each part is once the validation data of the others.

Which sample is in which fold is a function of the seed, the number of samples, and the labels or groups; nothing is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from instep import keys
from instep.data.data_source import DataSource, as_data_source
from instep.data.order import Order
from instep.data.pieces import bounds
from instep.data.position import Indices, Source
from instep.data.sampling import ClassBalanced, Values, Weighted
from instep.data.sources.frame import is_frame, is_series
from instep.data.sources.labels import labels_of
from instep.data.sources.recognize import Reading, as_data
from instep.data.sources.stream import Stream
from instep.data.structure import entries, is_column, is_record, map_columns, rebuilt
from instep.errors import DescriptionError, give_notice
from instep.text import plural


class Fold(NamedTuple):
    """What to train on and what to validate on, as `train=` and `valid=` take it."""

    train: Any
    valid: Any


class Folds(Sequence[Fold]):
    """All folds of some data. A fold is cut out when it is asked for, so that one copy of the data is there at a time."""

    def __init__(self, said: DataSource, of: Indices, k: int) -> None:
        self._said = said
        self.numbers = of  # the number of the fold of each sample
        self._k = k
        _narrowed(said.sampler, of[:0], len(of))  # which raises

    def __len__(self) -> int:
        return self._k

    @overload
    def __getitem__(self, index: SupportsIndex) -> Fold: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fold]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Fold | list[Fold]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._k))]
        number = range(self._k)[index]
        rest, kept = np.flatnonzero(self.numbers != number), np.flatnonzero(self.numbers == number)
        return Fold(_train_part(self._said, rest, len(self.numbers)), _valid_part(self._said, kept))

    def __repr__(self) -> str:
        sizes = sorted(set(np.bincount(self.numbers, minlength=self._k).tolist()))
        return f"{self._k} folds of {' to '.join(map(str, {sizes[0]: 0, sizes[-1]: 0}))} of {plural(len(self.numbers), 'sample')}"


def folds(
    data: Any,
    k: int,
    *,
    seed: int = 0,
    stratify: "bool | Values | Sequence[Any]" = False,
    groups: "Values | Sequence[Any] | None" = None,
    shuffle: bool = True,
) -> "Folds":
    """The data in k folds, each with the rest of it to train on: `for train, valid in folds((x, y), 5): …`.

    Every sample is in the validation data of exactly one fold; sizes differ by at most one. `stratify=True` gives each fold its
    share of every class (labels are found in memory, or pass them); with `groups`, samples of one group (a patient, a speaker)
    stay together. `shuffle=False` takes folds one after the other, in the data's own order.

    Tensors, arrays, tuples, mappings, frames and lists come as what they are, a Dataset as a Subset of it; of a `data.source(…)`
    the training part says all that it says, the validation part its target and collate_fn.

    >>> x, y = torch.arange(10.0), torch.tensor([0, 1] * 5)
    >>> parts = folds((x, y), 5, stratify=True)
    >>> len(parts), len(parts[0].train[0]), sorted(parts[0].valid[1].tolist())
    (5, 8, [0, 1])
    """
    said = as_data_source(data)
    source = _source_of(said)
    n = len(source)
    keys.check_seed(seed)
    if not isinstance(k, int) or isinstance(k, bool) or not 2 <= k <= n:
        raise DescriptionError(f"folds(k={k!r}) must be a whole number from 2 to the number of samples, {n:,}.")
    if not shuffle and (stratify is not False or groups is not None):
        raise DescriptionError("shuffle=False takes the folds as the data stands, so it goes with neither stratify= nor groups=.")
    of = _fold_of_each(n, k, seed, _classes(stratify, source), _grouping(groups, n), shuffle=shuffle)
    return Folds(said, of, k)


# --- Which sample is in which fold


def _fold_of_each(
    n: int, k: int, seed: int, classes: Indices | None, groups: Indices | None, *, shuffle: bool
) -> npt.NDArray[np.int64]:
    """The number of the fold of each sample."""
    of = np.empty(n, np.int64)
    if not shuffle:
        for fold, (start, stop) in enumerate(bounds(n, k)):
            of[start:stop] = fold
        return of
    shuffled = np.array(Order(n, seed=keys.for_folds(seed), epoch=0)[:])
    if groups is not None:
        return _deal_groups(shuffled, k, groups, np.zeros(n, np.int64) if classes is None else classes)
    if classes is not None:
        _say_rare(classes, k)
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
    # One after the other in turn: each fold gets its share of every run of one class, to within one.
    of[shuffled] = np.arange(n) % k
    return of


def _deal_groups(shuffled: Indices, k: int, groups: Indices, classes: Indices) -> npt.NDArray[np.int64]:
    """Whole groups, the largest first, each to the fold that has the least of its classes so far; of equals the emptier one.

    With nᶠᶜ samples of class c in fold f, adding a group of gᶜ changes Σ (nᶠᶜ/Nᶜ)² by 2·Σ nᶠᶜ·gᶜ/Nᶜ² and what is the same for
    all folds; the fold with the smallest change keeps the classes, or without classes the sizes, most even.
    """
    count = int(groups.max()) + 1
    if count < k:
        raise DescriptionError(f"folds(k={k}) needs a group for each fold, and groups= has {plural(count, 'group')}.")
    held = np.zeros((count, int(classes.max()) + 1))
    np.add.at(held, (groups, classes), 1)
    totals = held.sum(0)
    first = np.full(count, len(shuffled))  # where a group comes up first in the shuffled order: decides among equals
    np.minimum.at(first, groups[shuffled], np.arange(len(shuffled)))
    in_folds, fold_of = np.zeros((k, len(totals))), np.empty(count, np.int64)
    for group in np.lexsort((first, -held.sum(1))):
        change = (in_folds * held[group] / totals**2).sum(1)
        fold = np.lexsort((in_folds.sum(1), np.round(change, 12)))[0]
        fold_of[group] = fold
        in_folds[fold] += held[group]
    found: npt.NDArray[np.int64] = fold_of[groups]
    return found


def _classes(stratify: Any, source: Source) -> Indices | None:
    if stratify is False or stratify is None:
        return None
    if stratify is True:
        labels = labels_of(source)
        if labels is None:
            raise DescriptionError("stratify=True cannot find the labels without loading the data; pass them: stratify=labels.")
        return _numbered(labels, len(source), "stratify")
    return _numbered(stratify, len(source), "stratify")


def _grouping(groups: Any, n: int) -> Indices | None:
    return None if groups is None else _numbered(groups, n, "groups")


def _numbered(values: Any, n: int, name: str) -> Indices:
    """Values of any kind, words too, as numbers from 0 on."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise DescriptionError(
            f"{name}= has the shape {array.shape}, and there are {plural(n, 'sample')}; give one value a sample."
        )
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _say_rare(classes: Indices, k: int) -> None:
    fewest = int(np.bincount(classes).min())
    if fewest < k:
        give_notice(f"the rarest class has {plural(fewest, 'sample')}, fewer than the {k} folds: some folds have none of it.")


# --- The parts


def _source_of(said: DataSource) -> Source:
    data = said.data
    if isinstance(data, DataLoader):
        raise DescriptionError("folds() takes the data of a DataLoader, not the DataLoader; pass loader.dataset.")
    if isinstance(data, str | Path) or _is_on_disk(data):
        raise DescriptionError(
            "folds() takes data in memory or a Dataset, and this lies in a file; load it, or wrap it in a Dataset."
        )
    target = said.target
    if target is None and is_frame(data):
        target = str(data.columns[-1])  # rows are counted, nothing is predicted here
    source = as_data(data, "data", Reading(target, collate=said.collate_fn))
    if isinstance(source, Stream):
        raise DescriptionError("folds() chooses samples by index, and this is an iterable; pass a Dataset with __getitem__.")
    return source


def _is_on_disk(data: Any) -> bool:
    return isinstance(data, np.memmap | Path) or any(_is_on_disk(part) for _, part in _small_entries(data))


def _small_entries(data: Any) -> list[tuple[Any, Any]]:
    return entries(data) if isinstance(data, Mapping | tuple) or is_record(data) else []


def _train_part(said: DataSource, indices: Indices, samples: int) -> Any:
    part = _taken(said.data, indices)
    if not said.settings():
        return part
    lengths = said.bucket_by[indices] if isinstance(said.bucket_by, np.ndarray) else said.bucket_by
    return replace(said, data=part, sampler=_narrowed(said.sampler, indices, samples), bucket_by=lengths)


def _narrowed(sampler: Any, indices: Indices, samples: int) -> Any:
    """A sampler for some of so many samples."""
    if isinstance(sampler, Weighted | ClassBalanced):
        return sampler.narrowed(indices, samples)
    if sampler is None or isinstance(sampler, str):
        return sampler
    raise DescriptionError(
        'folds() leaves out samples, and sampler= names samples of all of them; use "balanced" or instep.data.weighted(…).'
    )


def _valid_part(said: DataSource, indices: Indices) -> Any:
    part = _taken(said.data, indices)
    plain = DataSource(part, target=said.target, collate_fn=said.collate_fn, batch_dim=said.batch_dim, shared=said.shared)
    return plain if plain.settings() else part


def _taken(data: Any, indices: Indices) -> Any:
    """Some samples of data, as data of the same kind."""
    if is_frame(data) or is_series(data):
        return data.iloc[indices]
    if isinstance(data, Tensor | np.ndarray):
        return data[torch.from_numpy(indices)] if isinstance(data, Tensor) else data[indices]
    if isinstance(data, Mapping | tuple) or is_record(data):
        return rebuilt(data, [_taken_part(part, indices) for _, part in entries(data)])
    if isinstance(data, list):
        return [data[index] for index in indices]
    return Subset(data, indices.tolist())


def _taken_part(part: Any, indices: Indices) -> Any:
    if is_frame(part) or is_series(part) or is_column(part):
        return _taken(part, indices)
    return map_columns(lambda column: _taken(column, indices), part)
