"""Samples: a map-style data set, loaded sample by sample, each under the key of its place, and collated.

Owns how samples are loaded, whichever process does it. Python's, NumPy's and torch's generators are keyed before each sample
and stand where they stood afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep import keys
from instep.data.collate import Misfit, collate, misfit
from instep.data.loading.augmenters import adapted, augmenters, draw_from_keyed
from instep.data.loading.failure import RAISED, failed
from instep.data.position import Collate, Indices, Position, Transform
from instep.errors import DataError, DescriptionError
from instep.text import plural

SHOWN = 8  # samples that are named where a whole batch is meant


class Samples:
    """A data set with `__getitem__` and `__len__`, a transform on each sample, and a way to collate them.

    `batched_fetch`: ask the data set for all samples of a batch at once (`__getitems__`). None does so where the method is the
    data set's own and there is no transform; what it draws is then keyed by the first sample's place.
    """

    in_memory = False

    def __init__(
        self,
        dataset: Any,
        name: str,
        *,
        transform: Transform | None = None,
        collate: Collate | None = None,
        batched_fetch: bool | None = None,
    ) -> None:
        self.name = name
        self.dataset = dataset
        self.transform = None if transform is None else adapted(transform)
        self._augmenters = augmenters(dataset, transform, collate)
        self.collate = collate
        self._batched_fetch = batched_fetch
        at_once = transform is None and has_own_batched_fetch(dataset)
        self._at_once = at_once if batched_fetch is None else batched_fetch
        self._length = _length_of(dataset, name)
        self._slot: Indices = np.zeros(1, np.int64)  # the sample that is being loaded

    def __len__(self) -> int:
        return self._length

    def fetch(self, indices: Tensor, at: Position) -> Any:
        wanted = indices.tolist()
        with one_thread(), keys.fork_rng():
            if self._augmenters:
                draw_from_keyed(self._augmenters)
            samples = self._loaded_at_once(wanted, at) if self._at_once else self._loaded(wanted, at)
            keys.seed_all(keys.for_batch(at.seed, at.epoch, at.place))
            return self.collated(samples, wanted)

    def sample(self, index: int, at: Position) -> Any:
        """One sample by itself, as it is in a batch."""
        with one_thread(), keys.fork_rng():
            if self._augmenters:
                draw_from_keyed(self._augmenters)
            return (self._loaded_at_once([index], at) if self._at_once else self._loaded([index], at))[0]

    def origin(self, indices: Tensor) -> Tensor:
        return indices

    def transformed(self, transform: Transform) -> "Samples":
        return Samples(self.dataset, self.name, transform=transform, collate=self.collate, batched_fetch=self._batched_fetch)

    def check(self) -> None:
        length = len(self.dataset)
        if length != self._length:
            raise DataError(
                f"{self.name} had {plural(self._length, 'sample')} when the run was made, now it has {length:,}; "
                "every epoch needs the same number."
            )

    def report_to(self, slot: Indices) -> None:
        self._slot = slot

    def _loaded(self, indices: list[int], at: Position) -> list[Any]:
        seed, epoch, place = at
        slot, load, for_sample, seed_all = self._slot, self._load, keys.for_sample, keys.seed_all
        samples = []
        index = -1
        try:
            for row, index in enumerate(indices):
                slot[0] = index
                seed_all(for_sample(seed, epoch, place + row))
                samples.append(load(index))
        except RAISED as error:
            raise self._unloadable(index, error) from error
        return samples

    def _load(self, index: int) -> Any:
        sample = self.dataset[index]
        return sample if self.transform is None else self.transform(sample)

    def _loaded_at_once(self, indices: list[int], at: Position) -> list[Any]:
        self._slot[0] = indices[0]
        keys.seed_all(keys.for_sample(at.seed, at.epoch, at.place))
        try:
            samples = list(self.dataset.__getitems__(indices))
        except RAISED as error:
            raise failed(f"{_samples(indices)} of {self.name} cannot be loaded", error) from error
        if len(samples) != len(indices):
            raise DataError(f"__getitems__ of {self.name} gave {plural(len(samples), 'sample')} for {len(indices)} indices.")
        return samples if self.transform is None else self._each_transformed(samples, indices, at, self.transform)

    def _each_transformed(self, samples: list[Any], indices: list[int], at: Position, transform: Transform) -> list[Any]:
        for row, index in enumerate(indices):
            self._slot[0] = index
            keys.seed_all(keys.for_sample(at.seed, at.epoch, at.place + row))
            try:
                samples[row] = transform(samples[row])
            except RAISED as error:
                raise self._unloadable(index, error) from error
        return samples

    def _unloadable(self, index: int, error: BaseException) -> DataError:
        lies = f" (its length says there are {self._length:,})" if isinstance(error, IndexError) else ""
        return failed(f"sample {index} of {self.name} cannot be loaded{lies}", error)

    def collated(self, samples: list[Any], indices: list[int]) -> Any:
        """The batch of these samples; the indices are for the errors."""
        try:
            return collate(samples) if self.collate is None else self.collate(samples)
        except RAISED as error:
            raise uncollatable(samples, indices, self.name, error, theirs=self.collate is not None) from error


def uncollatable(samples: list[Any], indices: list[int], name: str, error: BaseException, *, theirs: bool) -> DataError:
    """Which sample does not fit, and how; or what the user's own collate function raised, and on which samples."""
    found = error if isinstance(error, Misfit) else misfit(samples)
    differing = ""
    if found is not None:
        differing = f"sample {indices[found.row]} of {name} {found.this}, sample {indices[0]} {found.first}"
        if not theirs or found is error:
            return DataError(
                f"the samples of a batch do not fit together: {differing}. Make them alike with transform=, or say how to "
                "batch them with collate_fn=, like instep.data.pad() for sequences of different lengths."
            )
        differing = f" ({differing})"
    return failed(f"{_samples(indices)} of {name} cannot be collated{differing}", error)


def has_own_batched_fetch(dataset: Any) -> bool:
    """Whether `__getitems__` is as much the data set's own as its `__getitem__`: one that a parent class has knows nothing
    of what a subclass does to a sample."""
    for kind in type(dataset).__mro__:
        if vars(kind).get("__getitems__") is not None:
            return True
        if "__getitem__" in vars(kind):
            return False
    return False


@contextmanager
def one_thread() -> Iterator[None]:
    """Loading uses one torch thread in every process: sums differ bit for bit between one thread and two."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _length_of(dataset: Any, name: str) -> int:
    try:
        return len(dataset)
    except Exception as error:
        raise DescriptionError(f"the length of {name} cannot be found: {type(error).__name__}: {error}") from error


def _samples(indices: list[int]) -> str:
    more = f", … ({len(indices)} in all)" if len(indices) > SHOWN else ""
    return f"sample{'s' if len(indices) > 1 else ''} {', '.join(map(str, indices[:SHOWN]))}{more}"
