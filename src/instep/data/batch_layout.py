"""BatchLayout: which parts of a batch hold one entry a sample, and along which dimension; so how a batch is cut.

By itself every column holds its samples in dimension 0. A collate function may do otherwise: sequences with the time first, a
mask for all samples, a list of graphs. That is said with `data.source(…, batch_dim=…, shared=…)`; where it is not, a batch that
would be cut wrongly is an error that names the column. A batch that is not cut may be anything.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from instep.data.structure import entries, is_column, map_columns, rebuilt, size
from instep.errors import DescriptionError
from instep.text import plural

Name = str | int  # of an entry of a batch: a key wherever it stands, or the number of an entry of the batch itself
BatchDim = int | Mapping[Any, int]
Path = tuple[Any, ...]
_TENSORS: set[type] = {Tensor}


class Part(NamedTuple):
    """A part of a batch that is cut along `dim`; None where it is not known how."""

    path: Path
    content: Any
    dim: int | None


class BatchLayout:
    """How the batches of a run are cut. `batch_dim` is one dimension for all columns, or one by the name of an entry; `shared`
    are the entries that every piece has whole.

    >>> import torch
    >>> layout = BatchLayout({"x": 1}, ("mask",))
    >>> piece = layout.piece({"x": torch.zeros(7, 4), "mask": torch.ones(7, 7), "y": torch.zeros(4)}, 0, 2)
    >>> [tuple(column.shape) for column in piece.values()]
    [(7, 2), (7, 7), (2,)]
    """

    def __init__(self, batch_dim: BatchDim | None = None, shared: Name | Sequence[Name] | None = None) -> None:
        self._default = batch_dim if isinstance(batch_dim, int) else 0
        self._by_name = dict(batch_dim) if isinstance(batch_dim, Mapping) else {}
        self._shared = () if shared is None else (shared,) if isinstance(shared, str | int) else tuple(shared)
        self.is_plain = not (self._default or self._by_name or self._shared)
        self._never: set[Path] = set()  # columns whose length does not go with the number of samples
        for dim in (self._default, *self._by_name.values()):
            if not isinstance(dim, int) or isinstance(dim, bool):
                raise DescriptionError(
                    f'batch_dim={batch_dim!r} is no dimension; use a number, or one for each entry: {{"x": 1}}.'
                )

    def piece(self, batch: Any, start: int, stop: int) -> Any:
        """The samples from `start` to `stop`, in the batch's own structure: views, nothing is copied."""
        if self.is_plain:
            if type(batch) is tuple and set(map(type, batch)) == _TENSORS and all(column.ndim for column in batch):
                return tuple([column[start:stop] for column in batch])  # the usual (x, y), cut without a walk
            return map_columns(lambda column: column[start:stop], batch)
        return self._mapped(lambda part: _cut(part, start, stop), batch, ())

    def size(self, batch: Any) -> int | None:
        """How many samples a batch has, by its first column; None where it has none."""
        if self.is_plain:
            return size(batch)
        lengths = (_length(part) for part in self._parts(batch, ()))
        return next((length for length in lengths if length is not None), None)

    def columns(self, batch: Any) -> Iterator[tuple[str, Any]]:
        """The tensors and arrays that hold one entry a sample, by where they stand, with their samples brought to dimension 0."""
        for path, content, dim in self._parts(batch, ()):
            if dim is not None and isinstance(content, Tensor | np.ndarray):
                first = content.movedim if isinstance(content, Tensor) else functools.partial(np.moveaxis, content)
                yield _place(path), content if not dim else first(dim, 0)

    def learn(self, batch: Any, samples: int) -> None:
        """Look at a batch of so many samples: what has another length here is never one entry a sample, whatever it has later."""
        self._never.update(part.path for part in self._parts(batch, ()) if not _fits(part, samples))

    def require(self, batch: Any, samples: int, name: str, *, first_only: bool = False) -> None:
        """Raise where a batch of so many samples cannot be cut; with `first_only` where its samples cannot be counted."""
        parts = list(self._parts(batch, ()))
        for part in parts[:1] if first_only else parts:
            if not _fits(part, samples) or part.path in self._never:
                why = "weighted between processes" if first_only else "cut into micro-batches"
                raise DescriptionError(
                    f"a batch of {name} with {plural(samples, 'sample')} cannot be {why}: {self._describe(part, samples, batch)}"
                )

    def _parts(self, batch: Any, path: Path) -> Iterator[Part]:
        """What is cut of a batch, and what nobody knows how to cut; not what is shared, and no single numbers."""
        name = _named((*self._by_name, *self._shared), path, batch)
        if name is not None:
            if name in self._by_name:
                yield Part(path, batch, self._by_name[name])
        elif isinstance(batch, PackedSequence):
            yield Part(path, batch, None)
        elif is_column(batch):
            yield Part(path, batch, self._default if isinstance(batch, Tensor | np.ndarray) else 0)
        elif parts := entries(batch):
            for key, part in parts:
                yield from self._parts(part, (*path, key))
        elif _holds_arrays(batch):
            yield Part(path, batch, None)

    def _mapped(self, function: Callable[[Part], Any], batch: Any, path: Path) -> Any:
        name = _named((*self._by_name, *self._shared), path, batch)
        if name is not None:
            return function(Part(path, batch, self._by_name[name])) if name in self._by_name else batch
        if is_column(batch):
            return function(Part(path, batch, self._default if isinstance(batch, Tensor | np.ndarray) else 0))
        parts = entries(batch)
        return rebuilt(batch, [self._mapped(function, part, (*path, key)) for key, part in parts]) if parts else batch

    def _describe(self, part: Part, samples: int, batch: Any) -> str:
        place, shape = _place(part.path), _shape(part.content)
        here = f"its entry {place}" if place else "it"
        if isinstance(part.content, PackedSequence):
            return f"{here} is a PackedSequence; batch padded sequences, with collate_fn=data.pad(…), and pack them in the model."
        listing = _list_of(samples, batch, part.path)
        if listing is not None:
            name = listing[-1]
            return (
                f"its entry {_place(listing)} is a list of tensors, and {samples} entries are one a sample; say so with "
                f"data.source(…, batch_dim={{{name!r}: 0}})."
            )
        name = part.path[-1] if part.path and (isinstance(part.path[-1], str) or len(part.path) == 1) else "…"
        shared = f"data.source(…, shared=({name!r},)) where every piece gets all of it"
        if part.dim is None:
            return f"{here} {shape}, and how to cut that is not known; use collate_fn= to make tensors of it, or {shared}."
        dims = [dim for dim, length in enumerate(getattr(part.content, "shape", ())) if length == samples and dim != part.dim]
        by = f"{{{name!r}: {dims[0] if dims else 1}}}" if part.path else str(dims[0] if dims else 1)
        always = " whatever the number of samples" if _fits(part, samples) else f", not {samples} in dimension {part.dim}"
        return (
            f"{here} {shape}{always}. Say where its samples stand, data.source(…, batch_dim={by}) for dimension "
            f"{dims[0] if dims else 1}, or {shared}."
        )


BY_SAMPLE = BatchLayout()


def _named(names: Sequence[Name], path: Path, part: Any) -> Name | None:
    """The name that was said for what stands here. A batch that is one column is its own entry 0."""
    for name in names:
        if isinstance(name, int):
            if path == (name,) or (name == 0 and not path and is_column(part)):
                return name
        elif path and path[-1] == name:
            return name
    return None


def _length(part: Part) -> int | None:
    """How many samples a part holds; None where that cannot be said."""
    if part.dim is None or isinstance(part.content, PackedSequence):
        return None
    if isinstance(part.content, Tensor | np.ndarray):
        dims = part.content.ndim
        return part.content.shape[part.dim] if -dims <= part.dim < dims else None
    return len(part.content) if part.dim == 0 and isinstance(part.content, Sequence) else None


def _fits(part: Part, samples: int) -> bool:
    return _length(part) == samples


def _cut(part: Part, start: int, stop: int) -> Any:
    if not part.dim:
        return part.content[start:stop]
    dim = part.dim % part.content.ndim
    return part.content[(slice(None),) * dim + (slice(start, stop),)]


def _holds_arrays(thing: Any, depth: int = 4) -> bool:
    """Whether an object of somebody's own has arrays in it, and so maybe samples: a batch of graphs."""
    if isinstance(thing, Tensor | np.ndarray):
        return thing.ndim > 0
    if isinstance(thing, type) or not depth:
        return False
    parts = [*getattr(thing, "__dict__", {}).values(), *(part for _, part in entries(thing))]
    return any(_holds_arrays(part, depth - 1) for part in parts)


def _list_of(samples: int, batch: Any, path: Path) -> Path | None:
    """Where, on the way to a column, a list or tuple has as many entries as there are samples."""
    for depth, key in enumerate(path[:-1]):
        batch = dict(entries(batch))[key]
        if isinstance(batch, tuple | list) and len(batch) == samples and (isinstance(key, str) or depth == 0):
            return path[: depth + 1]
    return None


def _place(path: Path) -> str:
    """`0`, `'pixels'`, `0['mask']`"""
    return "".join(repr(key) if not depth else f"[{key!r}]" for depth, key in enumerate(path))


def _shape(content: Any) -> str:
    if isinstance(content, Tensor | np.ndarray):
        return f"has the shape {tuple(content.shape)}"
    return f"is a list of {len(content)}" if isinstance(content, list) else f"is a {type(content).__name__}"
