"""Collating: samples of one structure made into a batch.

Torch's `default_collate`, with dataclasses, None, and tuples that stay tuples; and what is said where samples do not fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import default_collate

from instep.data.structure import is_namedtuple, is_record
from instep.text import listed

_LEAVES = (Tensor, np.ndarray, np.generic, int, float, str, bytes)


class Misfit(ValueError):
    """A sample that does not fit the first of its batch; `row` is its number in the batch, the rest is what each of them is."""

    def __init__(self, row: int, this: str, first: str) -> None:
        super().__init__(row, this, first)
        self.row = row
        self.this = this  # "has the shape (3, 31)"
        self.first = first  # "has (3, 32)"


def collate(samples: list[Any]) -> Any:
    """A batch of samples, each a tensor, array, number or text, or a tuple, list, mapping, namedtuple or dataclass of those.

    >>> collate([(1, "a"), (2, "b")])
    (tensor([1, 2]), ['a', 'b'])
    """
    first = samples[0]
    if isinstance(first, _LEAVES):
        return list(samples) if isinstance(first, str | bytes) else default_collate(samples)
    if isinstance(first, Mapping):
        if any(len(sample) != len(first) for sample in samples):
            raise ValueError("the samples have different keys")  # one more would be left out without a word
        return {name: collate([sample[name] for sample in samples]) for name in first}
    if isinstance(first, tuple | list):
        parts = [collate(list(column)) for column in zip(*samples, strict=True)]
        return parts if isinstance(first, list) else type(first)(*parts) if is_namedtuple(first) else tuple(parts)
    if is_record(first):
        return replace(first, **{f.name: collate([getattr(sample, f.name) for sample in samples]) for f in fields(first)})
    if all(sample is None for sample in samples):
        return None
    return default_collate(samples)  # what somebody taught torch to collate, or torch's own error


def misfit(samples: Sequence[Any]) -> Misfit | None:
    """The first sample whose structure or shape is not that of the first one; None where all are alike."""
    for row, sample in enumerate(samples):
        if (found := _difference(samples[0], sample, "")) is not None:
            return Misfit(row, *found)
    return None


def _difference(first: Any, other: Any, path: str) -> tuple[str, str] | None:
    """What sets two samples apart, in words; `path` is where in their structure one is looking."""
    where = f" at {path}" if path else ""
    if _kind(first) != _kind(other):
        return f"is {_described(other)}{where}", f"is {_described(first)}"
    if isinstance(first, Tensor | np.ndarray):
        if tuple(first.shape) != tuple(other.shape):
            return f"has the shape {tuple(other.shape)}{where}", f"has {tuple(first.shape)}"
    elif isinstance(first, Mapping):
        if set(first) != set(other):
            return f"has the keys {listed(other) or 'none'}{where}", f"has {listed(first) or 'none'}"
        return next(filter(None, (_difference(first[key], other[key], f"{path}[{key!r}]") for key in first)), None)
    elif isinstance(first, tuple | list):
        if len(first) != len(other):
            return f"has {len(other)} entries{where}", f"has {len(first)}"
        pairs = enumerate(zip(first, other, strict=True))
        return next(filter(None, (_difference(a, b, f"{path}[{i}]") for i, (a, b) in pairs)), None)
    elif is_record(first):
        pairs_by_name = ((f.name, getattr(first, f.name), getattr(other, f.name)) for f in fields(first))
        return next(filter(None, (_difference(a, b, f"{path}.{name}") for name, a, b in pairs_by_name)), None)
    return None


def _kind(thing: Any) -> object:
    """What has to be equal for two things to be collated: Python's and NumPy's numbers go together, so do arrays and tensors."""
    if isinstance(thing, Tensor | np.ndarray):
        return Tensor
    if isinstance(thing, int | float | np.generic):
        return float
    return Mapping if isinstance(thing, Mapping) else type(thing)


def _described(thing: Any) -> str:
    if isinstance(thing, Tensor | np.ndarray):
        return f"a {type(thing).__name__} of shape {tuple(thing.shape)}"
    return "None" if thing is None else f"a {type(thing).__name__}"
