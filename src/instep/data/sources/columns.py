"""Columns: tensors and arrays that hold one entry a sample, in memory or in files; a batch is one copy a column.

Also several of them end to end, which is what a ConcatDataset of tensors becomes.
"""

import operator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.position import Indices, Position, Transform
from instep.data.sources.files import Stored, from_map
from instep.data.sources.frame import FrameLayout
from instep.data.sources.samples import Samples
from instep.data.structure import columns, joined, map_columns
from instep.errors import DescriptionError


class Columns:
    """Tensors and arrays in any structure: a batch is one `index_select` a column.

    With `dtype=torch.float32`, columns of float64 are read as float32, and `is_narrowed` says so. `layout` is that of the frame
    that it was made of.
    """

    def __init__(
        self,
        structure: Any,
        name: str,
        *,
        dtype: torch.dtype | None = None,
        layout: FrameLayout | None = None,
        is_narrowed: bool = False,
    ) -> None:
        self.name = name
        self.layout = layout
        kept = map_columns(as_column, structure)
        wide = [column for column in columns(kept) if dtype is torch.float32 and _is_wide(column)]
        self.is_narrowed = is_narrowed or bool(wide)
        self._narrows_rows = any(isinstance(column, Stored) for column in wide)
        self.structure = map_columns(_narrowed, kept) if wide else kept
        found = list(columns(self.structure))
        lengths = [len(column) for column in found]
        if len(set(lengths)) > 1:
            raise DescriptionError(f"the columns of {name} have different lengths: {', '.join(map(str, lengths))}.")
        self._length = lengths[0]
        self.in_memory = not any(isinstance(column, Stored) for column in found)
        is_plain = type(self.structure) is tuple and all(isinstance(column, Tensor) for column in self.structure)
        # The usual (x, y), fetched without a walk.
        self._tensors: tuple[Tensor, ...] | None = self.structure if is_plain else None

    def __len__(self) -> int:
        return self._length

    def fetch(self, indices: Tensor, at: Position) -> Any:
        if self._tensors is not None:
            return tuple([column.index_select(0, indices) for column in self._tensors])
        batch = map_columns(lambda column: rows_of(column, indices), self.structure)
        return map_columns(_narrowed, batch) if self._narrows_rows else batch

    def origin(self, indices: Tensor) -> Tensor:
        return indices

    def transformed(self, transform: Transform) -> Samples:
        return Samples(Rows(self), self.name, transform=transform, batched_fetch=True)

    def check(self) -> None:
        """Tensors keep their length."""

    def report_to(self, slot: Indices) -> None:
        """Copying does not fail."""


class Chained:
    """Columns of one structure end to end."""

    def __init__(self, parts: list[Columns], name: str) -> None:
        self.name = name
        self._parts = parts
        self._ends = torch.tensor([len(part) for part in parts]).cumsum(0)
        self.in_memory = all(part.in_memory for part in parts)
        self.is_narrowed = any(part.is_narrowed for part in parts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def fetch(self, indices: Tensor, at: Position) -> Any:
        owner = torch.bucketize(indices, self._ends, right=True)
        found, order = [], []
        for number in owner.unique().tolist():
            mine = (owner == number).nonzero().squeeze(1)
            part = self._parts[number]
            start = int(self._ends[number]) - len(part)
            found.append(part.fetch(indices.index_select(0, mine) - start, at))
            order.append(mine)
        back = torch.cat(order).argsort()  # what was fetched part by part, in the order that was asked for
        return map_columns(lambda column: rows_of(column, back), joined(found))

    def origin(self, indices: Tensor) -> Tensor:
        return indices

    def transformed(self, transform: Transform) -> Samples:
        return Samples(Rows(self), self.name, transform=transform, batched_fetch=True)

    def check(self) -> None:
        """Tensors keep their length."""

    def report_to(self, slot: Indices) -> None:
        """Copying does not fail."""


class Rows:
    """Columns as a data set of samples: rows of a copy, so that a transform may work in place."""

    def __init__(self, source: Columns | Chained) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        batch = self.source.fetch(torch.tensor(indices), Position(0, 0, 0))
        return [map_columns(operator.itemgetter(row), batch) for row in range(len(indices))]


def chained(parts: list[Columns], name: str) -> Chained | None:
    """The parts end to end; None where a batch of one does not continue a batch of another."""
    shapes = [[_shape(column) for column in columns(part.structure)] for part in parts]
    kinds = {_skeleton(part.structure) for part in parts}
    alike = len(kinds) == 1 and all(shape == shapes[0] for shape in shapes)
    return Chained(parts, name) if alike else None


def as_column(column: Any) -> Any:
    """A column as it is kept: tensors, lists, and what lies in a file."""
    if isinstance(column, np.memmap):
        return from_map(column)
    if not isinstance(column, np.ndarray):
        return column
    if column.dtype == object or column.dtype.kind in "US":
        return list(column)
    return torch.from_numpy(column if column.flags.writeable else column.copy())


def _is_wide(column: Any) -> bool:
    return column.is_wide if isinstance(column, Stored) else isinstance(column, Tensor) and column.dtype is torch.float64


def _narrowed(column: Any) -> Any:
    """A column of float64 as float32; what lies in a file stays there, and is narrowed row by row."""
    return column.float() if isinstance(column, Tensor) and column.dtype is torch.float64 else column


def rows_of(column: Any, indices: Tensor) -> Any:
    """The entries of a column of any kind, copied."""
    if isinstance(column, Tensor):
        return column.index_select(0, indices)
    return column.rows(indices) if isinstance(column, Stored) else [column[i] for i in indices.tolist()]


def _shape(column: Any) -> object:
    if isinstance(column, Tensor):
        return column.dtype, tuple(column.shape[1:])
    return column.shape[1:] if isinstance(column, Stored) else list


def _skeleton(structure: Any) -> str:
    """The structure without its columns, as text."""
    return repr(map_columns(lambda column: np.zeros(1), structure))
