"""SampleTrial: whether a data set gives the same sample wherever it is loaded, found with one sample before the first batch.

A worker has a copy of the data set, and loads some of the samples. So a sample must not depend on those before it: on a generator
of the data set's own, on what it keeps of earlier epochs, or on the worker. The same sample is loaded under the same key in
copies with another past. All of it happens in copies; what cannot be copied, or takes long to load, is not tried.
"""

import copy
import operator
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data._utils import worker  # where get_worker_info() looks

from instep import keys
from instep.data.copies import Copies, copied, is_keyed
from instep.data.loading.augmenters import reachable
from instep.data.position import Position, Source
from instep.data.sources.columns import Rows
from instep.data.sources.samples import Samples
from instep.data.sources.target import Targeted
from instep.data.sources.view import View
from instep.data.structure import entries
from instep.text import listed

MOST_BYTES = 64e6  # of a data set that is copied
MOST_COPIED_BYTES = 1e6  # of an array of NumPy; a larger one is looked at
MOST_S = 0.25  # that writing it down may take
MOST_ENTRIES = 1000  # of a list that is copied with its entries
SLOW_S = 1.0  # a sample that takes longer is not loaded again
DEPTH = 4  # how far from the data set what changed is looked for

_CONSEQUENCE = "With another number of workers, or after the run was resumed, the samples are other ones."
_GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)


class SampleTrial:
    """What came of loading one sample a few times; `notice` is what to say, None where nothing was found."""

    def __init__(self, source: Source, seed: int) -> None:
        self.notice: str | None = None
        self._samples: Samples | None = None
        inner: Any = source
        while isinstance(inner, View | Targeted):
            inner = inner.source
        if not isinstance(inner, Samples) or (isinstance(inner.dataset, Rows) and inner.transform is inner.collate is None):
            return
        self._index = int(source.origin(torch.zeros(1, dtype=torch.int64))[0])
        self._at = [Position(seed, epoch, 0) for epoch in (0, 1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's own code, which will say them again
            try:
                self._try(inner)
            except Exception:  # whatever is wrong, loading the batches will say it
                self._samples = None

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Batches of two and three samples, collated by the user's own function; none where that is not known to work."""
        if self._samples is None or self._samples.collate is None:
            return
        for count in (2, 3):
            with warnings.catch_warnings(), keys.fork_rng():
                warnings.simplefilter("ignore")
                try:
                    batch = self._samples.collate([copied(self._first, most_bytes=MOST_BYTES) for _ in range(count)])
                except Exception:  # of a function that wants samples of its own
                    return
            yield count, batch

    def _try(self, samples: Samples) -> None:
        in_memory = [samples.dataset] if isinstance(samples.dataset, Rows) else []  # which gives copies of its rows
        kept = Copies(
            samples,
            most_bytes=MOST_BYTES,
            most_s=MOST_S,
            most_entries=MOST_ENTRIES,
            most_copied_bytes=MOST_COPIED_BYTES,
            as_they_are=in_memory,
        )
        with _put_back(samples) as drawn_from:
            begun = time.perf_counter()
            self._samples = experienced = kept.make()
            self._first = experienced.sample(self._index, self._at[0])
            if time.perf_counter() - begun > SLOW_S:
                return
            fresh = kept.make()
            # Copied: a sample may be a view of what the data set holds, and a transform may write to it.
            found = [copy.deepcopy(one.sample(self._index, self._at[1])) for one in (experienced, fresh)]
            changed = _changed(experienced, fresh)
            with _as_in_worker(fresh):
                found.append(fresh.sample(self._index, self._at[1]))
        self.notice = self._judge(samples.name, found, [*drawn_from, *changed])

    def _judge(self, name: str, found: list[Any], changed: list[tuple[str, Any]]) -> str | None:
        sample = f"sample {self._index} of {name}"
        generators = [place for place, thing in changed if isinstance(thing, _GENERATORS)]
        if generators:
            return (
                f"{name} draws from {listed(generators)}, a generator of its own, which every worker has for itself. "
                f"{_CONSEQUENCE} Draw from the global generators of torch, NumPy or Python: they are keyed for each sample."
            )
        if not _same(found[0], found[1]):
            blamed = f", by {listed(place for place, _ in changed)}, which loading changes" if changed else ""
            return (
                f"{sample} depends on what was loaded before it{blamed}. {_CONSEQUENCE} Keep nothing random between samples, and "
                "let no transform write into what the data set holds: work on a copy."
            )
        if not _same(found[1], found[2]):
            return f"{sample} is another one in a worker: it depends on get_worker_info(), or on the clock. {_CONSEQUENCE}"
        return None


@contextmanager
def _put_back(samples: Samples) -> Iterator[list[tuple[str, Any]]]:
    """Afterwards the generators that were not copied, global ones of the user's, are where they were; those that had moved."""
    held = [thing for thing in reachable(samples.dataset, samples.transform, samples.collate) if isinstance(thing, _GENERATORS)]
    before = [(thing, copy.deepcopy(_state(thing))) for thing in held if not is_keyed(thing)]
    moved: list[tuple[str, Any]] = []
    try:
        yield moved
    finally:
        for thing, state in before:
            if not _same(_state(thing), state):
                _set_state(thing, state)
                moved.append((f"a global {type(thing).__name__}", thing))


@contextmanager
def _as_in_worker(samples: Samples) -> Iterator[None]:
    """Inside, get_worker_info() says what it says in the second of two workers."""
    before = worker._worker_info
    worker._worker_info = worker.WorkerInfo(id=1, num_workers=2, seed=0, dataset=samples.dataset)
    try:
        yield
    finally:
        worker._worker_info = before


def _changed(one: Samples, other: Samples) -> list[tuple[str, Any]]:
    """What two data sets, their transforms and collate functions differ in, by name: `Augmented.rng`."""
    pairs = ((one.dataset, other.dataset), (one.transform, other.transform), (one.collate, other.collate))
    return [found for mine, theirs in pairs for found in _differences(mine, theirs, type(mine).__name__, DEPTH, set())]


def _differences(one: Any, other: Any, place: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if id(one) in seen or one is other or type(one).__module__.partition(".")[0] == "albumentations":
        return  # these draw from the global generators while samples are loaded
    seen.add(id(one))
    parts = _variables(one)
    if isinstance(one, _GENERATORS):
        if not _same(_state(one), _state(other)):
            yield place, one
    elif depth and parts and type(one) is type(other):
        theirs = _variables(other)
        for name, part in parts.items():
            yield from _differences(part, theirs.get(name), f"{place}.{name}", depth - 1, seen)
    elif not _same(one, other):
        yield place, one


def _variables(thing: Any) -> dict[str, Any]:
    """What an object has by name: its attributes, what a function closes over, what a partial holds."""
    cells = getattr(thing, "__closure__", None) or ()
    names = thing.__code__.co_freevars if cells else ()
    bound = {"self": thing.__self__} if hasattr(thing, "__self__") and hasattr(thing, "__func__") else {}
    partial = {"func": thing.func, "args": thing.args} if hasattr(thing, "func") and hasattr(thing, "args") else {}
    if isinstance(thing, Tensor | np.ndarray | type):
        return {}
    return {**dict(zip(names, (cell.cell_contents for cell in cells), strict=True)), **bound, **partial, **_attributes(thing)}


def _attributes(thing: Any) -> dict[str, Any]:
    """Attributes, and entries that have such themselves: the steps of a list of transforms."""
    held = getattr(thing, "__dict__", {})
    if isinstance(thing, tuple | list) and len(thing) <= MOST_ENTRIES and any(hasattr(part, "__dict__") for part in thing):
        held = {str(number): part for number, part in enumerate(thing)}
    return dict(held)


def _state(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        (generator.setstate if isinstance(generator, random.Random) else generator.set_state)(state)


def _same(one: Any, other: Any) -> bool:
    """Whether two samples are equal bit for bit; of what nobody can compare it is believed."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.__array_interface__ == other.__array_interface__:
        return True  # two views of one array
    if isinstance(one, Tensor | np.ndarray) and isinstance(other, Tensor | np.ndarray):
        return _same_array(torch.as_tensor(one), torch.as_tensor(other)) if _is_numbers(one) else True
    if isinstance(one, str | bytes | int | float | complex | np.generic | None) or type(one) is not type(other):
        return bool(one == other) or (one != one and other != other)
    if isinstance(one, list | tuple) and len(one) == len(other) and all(map(operator.is_, one, other)):
        return True  # the same things, however many
    if isinstance(one, dict) and len(one) == len(other) and all(map(operator.is_, one.values(), other.values())):
        return True
    mine, theirs = entries(one), entries(other)
    if mine or theirs:
        return [key for key, _ in mine] == [key for key, _ in theirs] and all(
            _same(a, b) for (_, a), (_, b) in zip(mine, theirs, strict=True)
        )
    if hasattr(one, "tobytes") and hasattr(one, "size"):  # an image
        return bool(one.tobytes() == other.tobytes())
    return True


def _same_array(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    equal = one == other
    return bool((equal | (one.isnan() & other.isnan()) if one.is_floating_point() or one.is_complex() else equal).all())


def _is_numbers(array: Any) -> bool:
    return isinstance(array, Tensor) or array.dtype.kind in "biufc"
