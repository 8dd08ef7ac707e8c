"""The shape of a batch: nested tuples, lists, mappings, namedtuples and dataclasses with columns at the leaves.

A *column* holds one entry a sample: a tensor or array with at least one dimension, one that lies in a file, or a list of things
that are no columns themselves (the strings of a collated batch). Everything else (a 0-dim tensor, a number, None) belongs to the
batch as a whole.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor


class FileColumn:
    """A column that lies in a file; `instep.data.sources.files` has those that there are."""


def columns(batch: Any) -> Iterator[Any]:
    """The columns of a batch, in the order in which its structure names them."""
    if is_column(batch):
        yield batch
    else:
        for part in _parts(batch):
            yield from columns(part)


def named_columns(batch: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The columns of a batch with where they stand in it: `0`, `'pixels'`, `0['mask']`; "" for a batch that is one column."""
    if is_column(batch):
        yield name, batch
        return
    for key, part in entries(batch):
        yield from named_columns(part, f"{name}[{key!r}]" if name else repr(key))


def entries(thing: Any) -> list[tuple[Any, Any]]:
    """The parts of a structure by their keys: names, or numbers; none for what is no structure."""
    if isinstance(thing, Mapping):
        return list(thing.items())
    if is_record(thing):
        return [(f.name, getattr(thing, f.name)) for f in fields(thing)]
    return list(enumerate(thing)) if isinstance(thing, tuple | list) else []


def rebuilt(thing: Any, parts: list[Any]) -> Any:
    """A structure of the same kind with other parts, in the order of `entries`."""
    if isinstance(thing, Mapping):
        return dict(zip(thing, parts, strict=True))
    if is_record(thing):
        return replace(thing, **dict(zip((f.name for f in fields(thing)), parts, strict=True)))
    return parts if isinstance(thing, list) else type(thing)(*parts) if is_namedtuple(thing) else tuple(parts)


def map_columns(function: Callable[[Any], Any], batch: Any) -> Any:
    """The same structure with `function` applied to every column; what is no column stays as it is."""
    if is_column(batch):
        return function(batch)
    if isinstance(batch, Mapping):
        return {name: map_columns(function, part) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        mapped = [map_columns(function, part) for part in batch]
        if isinstance(batch, list):
            return mapped
        return type(batch)(*mapped) if is_namedtuple(batch) else tuple(mapped)
    if is_record(batch):
        return replace(batch, **{f.name: map_columns(function, getattr(batch, f.name)) for f in fields(batch)})
    return batch


def joined(batches: list[Any]) -> Any:
    """Batches of one structure as a single one, each column continued by the next batch's; 0-dim tensors are stacked."""
    first = batches[0]
    if isinstance(first, Tensor):
        return torch.cat(batches) if first.ndim else torch.stack(batches)
    if is_column(first):
        return np.concatenate(batches) if isinstance(first, np.ndarray) else [entry for batch in batches for entry in batch]
    if isinstance(first, Mapping):
        return {name: joined([batch[name] for batch in batches]) for name in first}
    if isinstance(first, tuple | list):
        parts = [joined(list(column)) for column in zip(*batches, strict=True)]
        return parts if isinstance(first, list) else type(first)(*parts) if is_namedtuple(first) else tuple(parts)
    if is_record(first):
        return replace(first, **{f.name: joined([getattr(batch, f.name) for batch in batches]) for f in fields(first)})
    return first


def size(batch: Any) -> int | None:
    """How many samples a batch has, by its first column; None where it has none."""
    if isinstance(batch, tuple | list) and batch and isinstance(batch[0], Tensor) and batch[0].ndim:
        return batch[0].shape[0]  # the usual (x, y), found without a walk
    return next((len(column) for column in columns(batch)), None)


def is_namedtuple(thing: Any) -> bool:
    return isinstance(thing, tuple) and hasattr(thing, "_fields")


def is_record(thing: Any) -> bool:
    return is_dataclass(thing) and not isinstance(thing, type)


def is_column(thing: Any) -> bool:
    """Whether it holds one entry a sample."""
    if isinstance(thing, Tensor | np.ndarray):
        return thing.ndim > 0
    if isinstance(thing, list):
        return bool(thing) and not any(_has_tensor(part) for part in thing)
    return isinstance(thing, FileColumn)


def _has_tensor(thing: Any) -> bool:
    return isinstance(thing, Tensor | np.ndarray | FileColumn) or any(_has_tensor(part) for part in _parts(thing))


def _parts(thing: Any) -> Iterator[Any]:
    if isinstance(thing, Mapping):
        yield from thing.values()
    elif isinstance(thing, tuple | list):
        yield from thing
    elif is_record(thing):
        yield from (getattr(thing, f.name) for f in fields(thing))
