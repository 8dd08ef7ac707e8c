"""Rows: the tensors of a sharded checkpoint, put together from the files of the processes that wrote it.

Each file says in its header which rows of which tensor it holds. They may be read by any number of processes, each of which
takes the rows that it holds itself; sizes are checked before memory is taken.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from instep.checkpoint import header, jsontext
from instep.checkpoint.tensorfile import as_bytes
from instep.errors import CheckpointError
from instep.records import record_class

SHARD = "shard-"  # how the names of the files begin
_NOTES, _OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"


class Holding(Protocol):
    """Which rows of a tensor a process holds, and the tensor made of them."""

    def rows(self, part: str, name: str, shape: Sequence[int]) -> tuple[int, int] | None: ...

    def made(self, part: str, name: str, shape: Sequence[int], rows: Tensor) -> Tensor: ...


@record_class
class Piece:
    """Some rows of a tensor in a file."""

    path: Path
    place: int  # in the file, in bytes
    dtype: torch.dtype
    shape: tuple[int, ...]
    first: int  # the row of the tensor that it begins with


def read_rows(files: Iterable[Path], parts: Collection[str] | None, held: Holding | None) -> dict[str, dict[str, Tensor]]:
    """The tensors by part and name: whole, or of `held` rows where that is said."""
    pieces: dict[str, list[Piece]] = {}
    for path in files:
        for key, found in _pieces(path):
            pieces.setdefault(key, []).append(found)
    tensors: dict[str, dict[str, Tensor]] = {}
    for key, found_ones in pieces.items():
        part, _, name = key.partition("/")
        if parts is None or part in parts:
            tensors.setdefault(part, {})[name] = _tensor(part, name, found_ones, held)
    return tensors


def held_of(tensors: Mapping[str, Mapping[str, Tensor]], held: Holding) -> dict[str, dict[str, Tensor]]:
    """The same of tensors that were read as a whole."""
    return {part: {name: _held(part, name, tensor, held) for name, tensor in named.items()} for part, named in tensors.items()}


def _held(part: str, name: str, tensor: Tensor, held: Holding) -> Tensor:
    span = held.rows(part, name, tensor.shape)
    return tensor if span is None else held.made(part, name, tensor.shape, tensor[span[0] : span[1]].contiguous().clone())


def _tensor(part: str, name: str, pieces: list[Piece], held: Holding | None) -> Tensor:
    """All rows of a tensor, or those that are held."""
    first = pieces[0]
    if not first.shape:
        return _read(first, 0, 1)
    pieces = sorted(pieces, key=lambda piece: (piece.first, piece.shape[0]))
    if any(piece.shape[1:] != first.shape[1:] or piece.dtype != first.dtype for piece in pieces):
        raise CheckpointError(f"the files do not agree on tensor {name[:80]!r}")
    place = 0
    for piece in pieces:
        if piece.shape[0] and piece.first != place:
            raise CheckpointError(f"tensor {name[:80]!r} has row {piece.first:,} where row {place:,} should be")
        place += piece.shape[0]
    shape = (place, *first.shape[1:])
    span = None if held is None else held.rows(part, name, shape)
    begin, end = (0, shape[0]) if span is None else span
    rows = [
        _read(piece, max(begin - piece.first, 0), min(end - piece.first, piece.shape[0]))
        for piece in pieces
        if piece.first < end and piece.first + piece.shape[0] > begin
    ]
    tensor = torch.cat(rows) if len(rows) > 1 else rows[0] if rows else torch.empty((0, *shape[1:]), dtype=first.dtype)
    return tensor if span is None or held is None else held.made(part, name, shape, tensor)


def _read(piece: Piece, begin: int, end: int) -> Tensor:
    """These rows of a piece; a number is one row."""
    shape = (end - begin, *piece.shape[1:]) if piece.shape else ()
    tensor = torch.empty(shape, dtype=piece.dtype)
    row_bytes = math.prod(piece.shape[1:]) * piece.dtype.itemsize
    if tensor.numel():
        memory = as_bytes(tensor)
        with open(piece.path, "rb") as file:
            file.seek(piece.place + begin * row_bytes)
            if file.readinto(memory) != len(memory):
                raise CheckpointError(f"{piece.path.name} is too short")
    return tensor


def _pieces(path: Path) -> list[tuple[str, Piece]]:
    with open(path, "rb") as file:
        head, layout = header.read(file, path.stat().st_size)
    offsets = _offsets(head[8:])
    found: list[tuple[str, Piece]] = []
    place = len(head)
    for one in layout.stored:
        found.append((one.name, Piece(path, place, one.dtype, one.shape, _first_row(one.name, one.shape, offsets))))
        place += one.size_bytes
    return found


def _offsets(text: bytes) -> dict[str, Any]:
    metadata = jsontext.parse(text, "its header").get(header.METADATA, {})
    notes = jsontext.parse(metadata.get(_NOTES, "{}").encode("utf-8", "replace"), "the notes in its header")
    if not isinstance(notes, dict):
        raise CheckpointError("the notes in its header are no mapping")
    return notes


def _first_row(name: str, shape: tuple[int, ...], notes: Mapping[str, Any]) -> int:
    """The row that a piece begins with; it has all columns."""
    note = notes.get(name)
    offsets = note.get(_OFFSETS) if isinstance(note, dict) else None
    if (
        not isinstance(offsets, list)
        or len(offsets) != len(shape)
        or not all(type(offset) is int and 0 <= offset < 2**62 for offset in offsets)
        or any(offsets[1:])
    ):
        raise CheckpointError(f"tensor {name[:80]!r} is noted at a place that it cannot have")
    return offsets[0] if offsets else 0
