"""Tensor files: safetensors, written and read in one pass, with the checksum taken on the way.

Written here and not by the safetensors package, which needs the whole file in memory twice and would have to read it again for a
checksum. Bytes go from the tensors' own memory to the file, a few megabytes at a time; all of it lets other threads run.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import BinaryIO

import torch
from torch import Tensor

from instep.checkpoint import header
from instep.checkpoint.blocks import BLOCK_BYTES
from instep.checkpoint.dtypes import stored_form
from instep.checkpoint.layout import Layout, StoredTensor
from instep.errors import CheckpointError


def chunks_of(layout: Layout, tensors: Mapping[str, Tensor], head: bytes) -> Iterable[bytes | memoryview]:
    """A file's bytes in order; a tensor that does not lie row by row on the host is brought there one at a time."""
    yield head
    for one in layout.stored:
        yield as_bytes(tensors[one.name].detach().cpu().resolve_conj().resolve_neg().contiguous())


def as_bytes(tensor: Tensor) -> memoryview:
    """The memory of a contiguous tensor on the host, not a copy."""
    return tensor.view(-1).view(torch.uint8).numpy().data


def read_tensors(file: BinaryIO, size_bytes: int) -> tuple[dict[str, Tensor], int]:
    """The tensors of an open file of this size and its checksum. Memory for at most `size_bytes` is taken."""
    head, layout = header.read(file, size_bytes)
    checksum = zlib.crc32(head)
    tensors: dict[str, Tensor] = {}
    for one in layout.stored:
        tensors[one.name], checksum = _read_one(file, one, checksum)
    for name, view in layout.views.items():
        base = tensors[view.of]
        same = (view.shape, view.strides, view.offset) == (tuple(base.shape), base.stride(), 0)
        tensors[name] = base if same else base.as_strided(view.shape, view.strides, view.offset)
    return tensors, checksum


def _read_one(file: BinaryIO, one: StoredTensor, checksum: int) -> tuple[Tensor, int]:
    try:
        # Taken in the stored form: to ask for complex32 by name brings a warning that is none of the reader's business.
        plain, shape = stored_form(one.dtype, one.shape)
        rows = torch.empty(shape, dtype=plain).view(one.dtype).view(one.shape)
    except RuntimeError:  # the shape fits the file, so it is the memory that does not
        raise CheckpointError(f"tensor {one.name[:80]!r} needs {one.size_bytes:,} bytes of memory, which there are not") from None
    memory = as_bytes(rows)
    for begin in range(0, len(memory), BLOCK_BYTES):
        part = memory[begin : begin + BLOCK_BYTES]
        if file.readinto(part) != len(part):  # type: ignore[attr-defined]  # a buffered file fills the whole of it
            raise CheckpointError(f"it ends within tensor {one.name[:80]!r}")
        checksum = zlib.crc32(part, checksum)
    if one.dtype is torch.bool and rows.numel() and int(rows.view(torch.uint8).max()) > 1:
        raise CheckpointError(f"tensor {one.name[:80]!r} is of truth values and holds others")
    if one.strides is None:
        return rows, checksum
    return torch.empty_strided(one.shape, one.strides, dtype=one.dtype).copy_(rows), checksum
