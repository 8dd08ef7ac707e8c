"""Sources: what users pass as data, made uniform.

A source has a length and fetches the batch of any samples by their indices. This file owns what is accepted and what is said
of the rest; in which order samples come is the loader's business.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset, default_collate

from instep import keys
from instep.data.order import Order
from instep.data.structure import columns, is_record, map_columns
from instep.errors import DescriptionError


class Position(NamedTuple):
    """Where a batch stands: the keys of its samples come from here."""

    seed: int
    epoch: int
    place: int  # of the batch's first sample


class Source(Protocol):
    """Data of a known length that fetches batches by index."""

    def __len__(self) -> int: ...

    def fetch(self, indices: Tensor, at: Position) -> Any:
        """The batch of the samples with these indices, in this order."""

    def origin(self, indices: Tensor) -> Tensor:
        """The same samples' indices in the data that the user passed."""


class Columns:
    """Tensors and arrays in memory: a batch is one `index_select` a column."""

    def __init__(self, structure: Any, name: str) -> None:
        self.structure = map_columns(_as_tensor, structure)
        lengths = [len(column) for column in columns(self.structure)]
        if len(set(lengths)) > 1:
            raise DescriptionError(f"the columns of {name} have different lengths: {', '.join(map(str, lengths))}.")
        self._length = lengths[0]
        is_plain = type(self.structure) is tuple and all(isinstance(column, Tensor) for column in self.structure)
        self._tensors: tuple[Tensor, ...] | None = (
            self.structure if is_plain else None
        )  # the usual (x, y), fetched without a walk

    def __len__(self) -> int:
        return self._length

    def origin(self, indices: Tensor) -> Tensor:
        return indices

    def fetch(self, indices: Tensor, at: Position) -> Any:
        if self._tensors is not None:
            return tuple([column.index_select(0, indices) for column in self._tensors])
        return map_columns(lambda column: _select(column, indices), self.structure)


class Samples:
    """A map-style data set: samples are loaded one by one, each under its own key, and collated."""

    def __init__(self, dataset: Any, name: str) -> None:
        self.dataset = dataset
        self._name = name

    def __len__(self) -> int:
        return len(self.dataset)

    def origin(self, indices: Tensor) -> Tensor:
        return indices

    def fetch(self, indices: Tensor, at: Position) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums differ bit for bit between one thread and two
        try:
            with keys.borrowed():
                samples = [self._sample(index, at, i) for i, index in enumerate(indices.tolist())]
                keys.seed_all(keys.for_batch(at.seed, at.epoch, at.place))
                return default_collate(samples)
        finally:
            torch.set_num_threads(threads)

    def _sample(self, index: int, at: Position, i: int) -> Any:
        keys.seed_all(keys.for_sample(at.seed, at.epoch, at.place + i))
        try:
            return self.dataset[index]
        except Exception as error:
            error.add_note(f"while loading sample {index} of {self._name}")
            raise


class View:
    """Some samples of another source."""

    def __init__(self, source: Source, indices: Tensor) -> None:
        self._source = source
        self._indices = indices

    def __len__(self) -> int:
        return len(self._indices)

    def origin(self, indices: Tensor) -> Tensor:
        return self._source.origin(self._indices.index_select(0, indices))

    def fetch(self, indices: Tensor, at: Position) -> Any:
        return self._source.fetch(self._indices.index_select(0, indices), at)


def as_source(data: Any, name: str) -> Source:
    """What a user passed, as a source; `name` is the argument's name, for the errors."""
    source = _recognised(data, name)
    if len(source) == 0:
        raise DescriptionError(f"{name} holds no sample.")
    return source


def held_out(source: Source, share: float, seed: int) -> tuple[Source, Source]:
    """The source in two: what is left for training, and a share for validation, chosen by the seed alone."""
    if not 0 < share < 1:
        raise DescriptionError(f"valid={share} is no share of the training data; use a number between 0 and 1.")
    n = len(source)
    count = max(1, round(n * share))
    if count >= n:
        raise DescriptionError(f"valid={share} of {n} samples leaves none to train on.")
    shuffled = np.array(Order(n, seed=keys.for_split(seed), epoch=0)[:])
    rest, kept = np.sort(shuffled[count:]), np.sort(shuffled[:count])
    return View(source, torch.from_numpy(rest)), View(source, torch.from_numpy(kept))


def _recognised(data: Any, name: str) -> Source:
    if isinstance(data, TensorDataset):
        return Columns(data.tensors, name)
    if isinstance(data, Subset):
        return _subset(data, name)
    if isinstance(data, Tensor | np.ndarray):
        if data.ndim == 0:
            raise DescriptionError(f"{name} is a single number; pass a tensor with one entry a sample.")
        return Columns(data, name)
    if isinstance(data, Mapping | tuple) or is_record(data):
        return _structure(data, name)
    if isinstance(data, list) and data and all(isinstance(part, Tensor | np.ndarray) for part in data):
        raise DescriptionError(
            f"{name} is a list of {len(data)} tensors, which could be columns or samples; "
            "pass a tuple (x, y) for columns, a Dataset for samples."
        )
    if isinstance(data, DataLoader):
        raise DescriptionError(
            f"{name} is a DataLoader, which is not taken yet; pass its dataset, and batch_size= to the Trainer."
        )
    if isinstance(data, IterableDataset) or not _is_map_style(data):
        raise DescriptionError(
            f"{name} is of type {type(data).__name__}; pass tensors, arrays, a tuple or mapping of them, "
            "or a Dataset with __getitem__ and __len__."
        )
    return Samples(data, name)


def _structure(data: Any, name: str) -> Columns:
    if next(columns(data), None) is None:
        raise DescriptionError(f"{name} is a {type(data).__name__} without a tensor in it; pass for example (x, y).")
    return Columns(data, name)


def _subset(data: Subset[Any], name: str) -> View:
    source = as_source(data.dataset, name)
    indices = torch.as_tensor(list(data.indices), dtype=torch.int64)
    wrong = indices[(indices < 0) | (indices >= len(source))]
    if len(wrong):
        raise DescriptionError(f"{name} is a Subset with index {wrong[0].item()}, its data set has {len(source)} samples.")
    return View(source, indices)


def _is_map_style(data: Any) -> bool:
    """This is the one place that finds out what it was given: whatever has a length and items will do."""
    return (isinstance(data, Dataset) or hasattr(data, "__getitem__")) and hasattr(data, "__len__") and not isinstance(data, str)


def _as_tensor(column: Any) -> Any:
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype == object or column.dtype.kind in "US":
        return list(column)
    return torch.from_numpy(column if column.flags.writeable else column.copy())


def _select(column: Any, indices: Tensor) -> Any:
    return column.index_select(0, indices) if isinstance(column, Tensor) else [column[i] for i in indices.tolist()]
