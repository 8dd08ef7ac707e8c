"""Stored: a column that lies in a file and is read row by row, never as a whole.

NumPy's `.npy` files, maps that the user opened, and the tensors of a `.safetensors` file, whose header is eight bytes of length
and a JSON object: each tensor is a plain array at an offset.
"""

import json
import math
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from instep.data.structure import FileColumn
from instep.errors import DescriptionError

# What a safetensors file calls a type: as NumPy reads it, and as torch has to look at it where NumPy has no such type.
_DTYPES: dict[str, tuple[str, torch.dtype | None]] = {
    "F64": ("<f8", None),
    "F32": ("<f4", None),
    "F16": ("<f2", None),
    "BF16": ("<i2", torch.bfloat16),
    "F8_E4M3": ("u1", torch.float8_e4m3fn),
    "F8_E5M2": ("u1", torch.float8_e5m2),
    "I64": ("<i8", None),
    "I32": ("<i4", None),
    "I16": ("<i2", None),
    "I8": ("i1", None),
    "U64": ("<u8", None),
    "U32": ("<u4", None),
    "U16": ("<u2", None),
    "U8": ("u1", None),
    "BOOL": ("?", None),
}


class Region(NamedTuple):
    """Where an array lies in a file: what is sent to a worker instead of the array."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    order: str  # "C", or "F" where columns come first


class Stored(FileColumn):
    """A column in a file; `rows` copies the ones asked for."""

    def __init__(self, array: Any, region: Region | None = None, seen_as: torch.dtype | None = None) -> None:
        self._array = array
        self._region = region
        self._seen_as = seen_as
        native = array.dtype.newbyteorder("=")
        self._native = native if native != array.dtype else None

    def __len__(self) -> int:
        return int(self._array.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._array.shape)

    @property
    def is_wide(self) -> bool:
        """Whether it holds float64."""
        return bool(self._array.dtype == np.float64)

    def rows(self, indices: Tensor) -> Tensor:
        """A copy of these rows as a tensor."""
        found = self._array.take(indices.numpy(), axis=0)
        rows = torch.from_numpy(found if self._native is None else found.astype(self._native))
        return rows if self._seen_as is None else rows.view(self._seen_as)

    def __reduce__(self) -> Any:
        if self._region is None:
            return Stored, (self._array, None, self._seen_as)
        return _opened, (self._region, self._seen_as)


def from_map(array: "np.memmap[Any, Any]") -> Stored:
    """A map that the user opened; a part of one is known by its map only, so a worker that is spawned gets a copy."""
    whole = isinstance(array.base, np.memmap) is False and array.filename is not None
    order = "C" if array.flags.c_contiguous else "F"
    region = Region(str(array.filename), array.dtype.str, tuple(array.shape), array.offset, order) if whole else None
    return Stored(array.view(np.ndarray), region)


def from_file(path: Path, name: str) -> Stored | dict[str, Stored]:
    """The column of a `.npy` file, or the columns of a `.safetensors` file by name."""
    if not path.exists():
        raise DescriptionError(f"{name} is {str(path)!r}, which does not exist.")
    if path.suffix == ".npy":
        return from_map(_npy(path, name))
    if path.suffix == ".safetensors":
        return _safetensors(path, name)
    hint = "save each array by itself with np.save." if path.suffix == ".npz" else "use .npy or .safetensors, or pass a Dataset."
    raise DescriptionError(f"{name} is the file {str(path)!r}, which cannot be read row by row; {hint}")


def _npy(path: Path, name: str) -> "np.memmap[Any, Any]":
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise DescriptionError(f"{name} is {str(path)!r}, which is no .npy file of numbers: {error}") from None
    if array.ndim == 0:
        raise DescriptionError(f"{name} is {str(path)!r}, a single number; use an array with one entry a sample.")
    return array  # type: ignore[no-any-return]


def _safetensors(path: Path, name: str) -> dict[str, Stored]:
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(min(length, 2**27)))
        entries = {key: entry for key, entry in header.items() if key != "__metadata__"}
        return {key: _entry(path, entry, 8 + length) for key, entry in entries.items()}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise DescriptionError(f"{name} is {str(path)!r}, which is no whole safetensors file: {error!r}") from None


def _entry(path: Path, entry: dict[str, Any], begin: int) -> Stored:
    dtype, seen_as = _DTYPES[entry["dtype"]]
    start, stop = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if not shape or stop - start != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError(f"a tensor of shape {shape} has {stop - start} bytes")
    return _opened(Region(str(path), dtype, shape, begin + start, "C"), seen_as)


def _opened(region: Region, seen_as: torch.dtype | None) -> Stored:
    if 0 in region.shape:  # nothing to map
        return Stored(np.empty(region.shape, region.dtype), None, seen_as)
    array: Any = np.memmap(
        region.path,
        dtype=region.dtype,
        mode="r",
        offset=region.offset,
        shape=region.shape,
        order=region.order,  # type: ignore[call-overload]
    )
    return Stored(array.view(np.ndarray), region, seen_as)
