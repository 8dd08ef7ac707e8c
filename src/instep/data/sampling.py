"""Sampling: what users pass as `sampler=`, made into a sampler for their data.

`weighted` and `class_balanced` are made here; a function `(epoch, seed) -> indices` is taken as it is; torch's samplers are taken
by what they mean where that is a function of position, and refused where it is not.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data import Sampler as TorchSampler

from instep import keys
from instep.data.buckets import Bucketed
from instep.data.position import Indices, Source
from instep.data.sampler import Among, Drawn, InOrder, Sampler, Shuffled, Whole, checked, deal, race
from instep.data.sources.labels import labels_of
from instep.errors import DescriptionError
from instep.text import plural

Values = Tensor | npt.NDArray[Any] | Sequence[float]


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws by weight; made by `weighted`."""

    weights: npt.NDArray[np.float64]
    samples: int | None
    replacement: bool

    def bound(self, source: Source) -> Sampler:
        n = len(source)
        if len(self.weights) != n:
            raise DescriptionError(
                f"sampler= has {len(self.weights):,} weights and {source.name} has {plural(n, 'sample')}; give one weight "
                "a sample."
            )
        samples = n if self.samples is None else self.samples
        if self.replacement:
            return Drawn(n, samples, self.weights)
        positive = int((self.weights > 0).sum())
        if samples > positive:
            raise DescriptionError(
                f"sampler= cannot draw {samples:,} samples without replacement from {positive:,} with a weight above 0; "
                f"use samples={positive} or replacement=True."
            )
        return Whole(functools.partial(race, self.weights, samples), n, source.name, samples)

    def narrowed(self, indices: Indices, whole: int) -> "Weighted":
        """For some samples of `whole`, where the weights are those of all of them."""
        return replace(self, weights=self.weights[indices]) if len(self.weights) == whole else self


@dataclass(frozen=True, eq=False)
class ClassBalanced:
    """Every class equally often; made by `class_balanced`."""

    labels: Indices | None
    samples: int | None

    def bound(self, source: Source) -> Sampler:
        labels = labels_of(source) if self.labels is None else self.labels
        if labels is None:
            raise DescriptionError(
                f"class_balanced() cannot find the labels of {source.name} without loading it: it looks for whole numbers in "
                "memory, and for targets or labels of a data set. Pass class_balanced(labels)."
            )
        if len(labels) != len(source):
            raise DescriptionError(
                f"sampler= has {len(labels):,} labels and {source.name} has {plural(len(source), 'sample')}; give one "
                "label a sample."
            )
        samples = len(labels) if self.samples is None else self.samples
        return Whole(functools.partial(deal, labels, samples), len(source), source.name, samples)

    def narrowed(self, indices: Indices, whole: int) -> "ClassBalanced":
        """For some samples of `whole`, where the labels are those of all of them."""
        return self if self.labels is None or len(self.labels) != whole else replace(self, labels=self.labels[indices])


def weighted(weights: Values, *, samples: int | None = None, replacement: bool = True) -> Weighted:
    """A sampler that draws each sample with the chance of its weight; `samples` draws an epoch, as many as there are if None.

    >>> weighted([1.0, 1.0, 8.0], samples=6).samples
    6
    """
    array = np.asarray(weights, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise DescriptionError(f"weighted() needs one weight a sample, got an array of shape {array.shape}.")
    if not np.isfinite(array).all() or (array < 0).any() or not array.sum() > 0:
        raise DescriptionError("weighted() needs weights that are finite, none below 0, and not all 0.")
    return Weighted(array, _count(samples), replacement)


def class_balanced(labels: Values | None = None, *, samples: int | None = None) -> ClassBalanced:
    """A sampler that gives every class equally often: samples of a rare class come several times, of a frequent one not all.

    Without `labels` they are found where that costs nothing: in a column of tensors in memory, in a data set's `targets`.

    >>> class_balanced([0, 0, 0, 0, 1], samples=6).samples
    6
    """
    if labels is None:
        return ClassBalanced(None, _count(samples))
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array):
        raise DescriptionError(f"class_balanced() needs one label a sample, got an array of shape {array.shape}.")
    return ClassBalanced(np.unique(array, return_inverse=True)[1].astype(np.int64), _count(samples))


def sampler_for(given: Any, source: Source, *, shuffle: bool) -> Sampler:
    """What was passed as `sampler=` for this source; where nothing was, shuffled or the data's own order."""
    if given is None:
        return Shuffled(len(source)) if shuffle else InOrder(len(source))
    given = by_name(given)
    if isinstance(given, InOrder | Shuffled | Among | Drawn | Whole | Bucketed):
        return given
    if isinstance(given, Weighted | ClassBalanced):
        return given.bound(source)
    if isinstance(given, TorchSampler):
        return _from_torch(given, source)
    if inspect.isroutine(given) or isinstance(given, functools.partial) or (callable(given) and not isinstance(given, type)):
        _require_two_arguments(given)
        return Whole(given, len(source), source.name)
    raise DescriptionError(
        f'sampler={repr(given) if isinstance(given, str) else type(given).__name__} is not known; pass "balanced", '
        "instep.data.weighted(…), instep.data.class_balanced(), a function (epoch, seed) -> indices, or a sampler of torch."
    )


def by_name(given: Any) -> Any:
    """The sampler that a word stands for; what is no such word as it is."""
    return ClassBalanced(None, None) if isinstance(given, str) and given == "balanced" else given


def _from_torch(given: Any, source: Source) -> Sampler:
    n = len(source)
    kind = type(given)
    if kind in (SequentialSampler, RandomSampler) and len(given.data_source) != n:
        raise DescriptionError(
            f"sampler= is a {kind.__name__} over {len(given.data_source):,} samples, and {source.name} has {n:,}; "
            "make it from the same data."
        )
    if kind is SequentialSampler:
        return InOrder(n)
    if kind is DistributedSampler:  # the processes of a run share out its batches by themselves
        return Shuffled(n) if given.shuffle else InOrder(n)
    if kind is RandomSampler:
        return _random(given, n)
    if kind is WeightedRandomSampler:
        return weighted(given.weights, samples=given.num_samples, replacement=given.replacement).bound(source)
    if kind is SubsetRandomSampler:
        return Among(checked(given.indices, n, source.name, "sampler=SubsetRandomSampler"))
    if isinstance(given, BatchSampler):
        raise DescriptionError("sampler= is a BatchSampler, which makes batches; say how large they are with batch_size=.")
    return _listed(given, source)


def _random(given: Any, n: int) -> Sampler:
    samples = given.num_samples
    if given.replacement:
        return Drawn(n, samples)
    if samples > n:
        raise DescriptionError(
            f"sampler= is a RandomSampler that goes through {n:,} samples several times to draw {samples:,}; "
            "use one pass an epoch and more epochs."
        )
    return Shuffled(n, samples)


def _listed(given: Any, source: Source) -> Sampler:
    """A sampler of somebody's own: its epochs are what it lists under the key of each. It has to list the same twice."""
    listed = functools.partial(_list_epoch, given)
    first, again = (_keyed(listed, 0) for _ in range(2))
    if first != again:
        raise DescriptionError(
            f"sampler={type(given).__name__} gave other indices when it was asked again for the same epoch under the same key: "
            "it keeps a state or a generator of its own, so a run could not be resumed. Pass a function (epoch, seed) -> indices."
        )
    return Whole(listed, len(source), source.name)


def _list_epoch(given: Any, epoch: int, seed: int) -> list[int]:
    set_epoch: Callable[[int], object] | None = getattr(given, "set_epoch", None)
    if set_epoch is not None:
        set_epoch(epoch)
    return [int(index) for index in given]


def _keyed(function: Callable[[int, int], list[int]], epoch: int) -> list[int]:
    with keys.fork_rng():
        keys.seed_all(keys.for_sampler(0, epoch))
        return function(epoch, 0)


def _require_two_arguments(function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(0, 0)
    except TypeError:
        raise DescriptionError(
            "sampler= is called as sampler(epoch, seed) and has to return indices; this one takes other arguments."
        ) from None
    except ValueError:
        return  # a function without a signature: the call will tell


def _count(samples: int | None) -> int | None:
    if samples is not None and (not isinstance(samples, int) or isinstance(samples, bool) or samples < 1):
        raise DescriptionError(f"samples={samples!r} must be a whole number, 1 or more.")
    return samples
