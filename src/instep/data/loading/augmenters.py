"""Augmenters: what other libraries' transforms need, so that they take part.

Most draw from the global generators (torchvision, kornia), which are keyed for every sample. Albumentations keeps generators of
its own, seeded by nothing that can be found again, and wants its samples by name: it is given the global ones to draw from.
"""

import functools
import inspect
import random
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from instep.data.position import Transform
from instep.data.structure import is_namedtuple
from instep.errors import DescriptionError

DEPTH = 4  # how far from a data set or a transform an augmenter is looked for
WIDTH = 64  # how many entries of a list are looked at


class OnEntry:
    """A transform of one entry of a sample; made by `on`."""

    def __init__(self, entry: int | str, function: Transform) -> None:
        self.entry = entry
        self.function = function

    def __call__(self, sample: Any) -> Any:
        entry: Any = self.entry
        if isinstance(sample, Mapping):
            return {**sample, entry: self.function(sample[entry])}
        if isinstance(entry, str):
            changed = {entry: self.function(getattr(sample, entry))}
            return sample._replace(**changed) if is_namedtuple(sample) else replace(sample, **changed)
        parts = list(sample)
        parts[entry] = self.function(parts[entry])
        return parts if isinstance(sample, list) else type(sample)(*parts) if is_namedtuple(sample) else tuple(parts)


class ByName:
    """Albumentations' transform, called as it wants: with the names of a mapping, or `image=` for the first entry of a tuple."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, sample: Any) -> Any:
        if isinstance(sample, Mapping):
            return dict(self.function(**sample))
        if isinstance(sample, tuple | list):
            return (self.function(image=sample[0])["image"], *sample[1:])
        return self.function(image=sample)["image"]


def on(entry: int | str, function: Transform) -> OnEntry:
    """A transform that changes one entry of each sample (or of each batch) and leaves the others.

    >>> on(0, str.upper)(("a", 1))
    ('A', 1)
    """
    if not callable(function):
        raise DescriptionError(f"on({entry!r}, {function!r}): this cannot be called; pass a function of the entry.")
    return OnEntry(entry, function)


def adapted(transform: Transform) -> Transform:
    """A transform that can be called with a sample."""
    return ByName(transform) if _is_albumentations(transform) else transform


def augmenters(*things: Any) -> list[Any]:
    """Those of Albumentations that can be reached from a data set or a transform."""
    if "albumentations" not in sys.modules:
        return []
    return [thing for thing in reachable(*things) if _is_albumentations(thing)]


def reachable(*things: Any) -> list[Any]:
    """Some things and what they are made of, a few steps far: attributes, entries, what a function closes over."""
    seen: set[int] = set()
    found: list[Any] = []
    level = list(things)
    for _ in range(DEPTH):
        new = [thing for thing in level if not (id(thing) in seen or seen.add(id(thing)))]  # type: ignore[func-returns-value]
        found += new
        level = [part for thing in new for part in _parts(thing)]
    return found


def draw_from_keyed(found: list[Any]) -> None:
    """Have them draw from the global generators as they are now; inside `keys.fork_rng()`, which exchanges NumPy's."""
    numpy_generator = np.random.Generator(np.random.mtrand.get_bit_generator())
    python_generator = random.seed.__self__  # type: ignore[attr-defined]  # the one behind the module's functions
    for augmenter in found:
        augmenter.set_random_state(numpy_generator, python_generator)


def _is_albumentations(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "albumentations" and callable(thing)


def _parts(thing: Any) -> Iterator[Any]:
    """What a thing is made of, as far as an augmenter could be in it."""
    if isinstance(thing, str | bytes | int | float | np.ndarray | ModuleType | type) or thing is None:
        return
    if isinstance(thing, Mapping):
        yield from list(thing.values())[:WIDTH]
    elif isinstance(thing, tuple | list):
        yield from thing[:WIDTH]
    elif isinstance(thing, functools.partial):
        yield from (thing.func, *thing.args, *thing.keywords.values())
    elif inspect.ismethod(thing):
        yield from (thing.__self__, thing.__func__)
    elif inspect.isfunction(thing):
        with suppress(ValueError):  # a variable that has no value yet
            closed = inspect.getclosurevars(thing)
            yield from (*closed.nonlocals.values(), *closed.globals.values())
    elif is_dataclass(thing):
        yield from (getattr(thing, f.name) for f in fields(thing))
    else:
        yield from getattr(thing, "__dict__", {}).values()
        yield from (getattr(type(thing), name, None) for name in ("__getitem__", "__call__", "__iter__"))
