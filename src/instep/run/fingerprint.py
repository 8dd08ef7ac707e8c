"""The fingerprint of data: its length, its structure, a hash of 64 samples as the model gets them, and of all that is in memory.

All values of tensors and arrays in memory are hashed (about 3 GB/s on one core): one other label is other data. What lies in a
file and what a data set loads is hashed at 64 fixed places only: all of it would have to be read. Of an iterable nothing is read.

The hash: 64-bit words x, mixed by x ^ x >> 32, times fixed odd weights w by their place, summed mod 2^64 over blocks of 16,384
words. An odd weight is invertible, so one changed word always shows; the mixing makes sign bits count that would cancel in pairs.
It is for accidents, not against forgers. NumPy's integer product is several times as fast as crc32, sha1 or blake2b.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.sources.columns import Chained, Columns
from instep.data.sources.recognize import Position, Source
from instep.data.sources.samples import Samples
from instep.data.sources.stream import Stream
from instep.data.sources.target import Targeted
from instep.data.sources.underlying import underlying
from instep.data.sources.view import Computed, View
from instep.data.structure import columns
from instep.run.plain import digest

PLACES = 64
MOST_LISTED = 100_000  # entries of a list that are all looked at, in a fraction of a second
WORDS, BLOCKS = 1 << 14, 8  # a block of 128 kB, and how many are mixed at once
ROWS_BYTES = 1 << 26  # of a column that are brought to the host at once
_WEIGHTS = np.random.default_rng(20_231).integers(0, 1 << 63, WORDS, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_HALF = np.uint64(32)

Known = dict[int, list[str] | None]  # the hashes of what was hashed before, by the identity of the source


def fingerprint(source: Source | Stream, known: Known | None = None, *, content: bool = True) -> dict[str, Any]:
    """What identifies data; what is in `known` is not hashed again. Without `content`, what 64 places say of it."""
    if isinstance(source, Stream):
        return {"samples": source.length, "iterable": type(source.dataset).__name__}
    n = len(source)
    places = torch.linspace(0, n - 1, min(n, PLACES), dtype=torch.float64).round().long()
    found = list(columns(source.fetch(places, Position(seed=0, epoch=0, place=0))))
    shapes = [f"{c.dtype}{tuple(c.shape[1:])}" if isinstance(c, Tensor) else "list" for c in found]
    told = {"samples": n, "columns": shapes, "hash": digest(found)}
    hashes = _content(source, {} if known is None else known) if content else None
    if hashes is None:
        return {**told, "read": f"{len(places)} places"}
    return {**told, "read": "all", "content": hashes}


def _content(source: Any, known: Known) -> dict[str, Any] | None:
    """A hash of each column in memory, and of the places in it that are meant; None where not all of it is in memory."""
    found = underlying(source)
    if id(found) not in known:
        known[id(found)] = _hashes(found)
    hashes = known[id(found)]
    if hashes is None:
        return None
    picks = []
    while isinstance(source, View | Targeted):
        if isinstance(source, View) and not isinstance(source.picks, Computed):  # which its seed and length say
            picks.append(hash_tensor(source.picks.take(torch.arange(len(source)))))
        source = source.source
    return {"columns": hashes, **({"picks": picks} if picks else {})}


def _hashes(found: Any) -> list[str] | None:
    if isinstance(found, Samples):
        held = found.dataset
        return _known_only([_hash_entries(held)]) if type(held) is list and len(held) <= MOST_LISTED else None
    if isinstance(found, Columns) and found.in_memory:
        return _known_only([_hash_column(column) for column in columns(found.structure)])
    if isinstance(found, Chained) and found.in_memory:
        at = Position(seed=0, epoch=0, place=0)
        parts = [found.fetch(places, at) for places in torch.arange(len(found)).split(1 << 16)]
        return _known_only([_hash_column(column) for part in parts for column in columns(part)])
    return None


def _known_only(hashes: list[str | None]) -> list[str] | None:
    known = [one for one in hashes if one is not None]
    return known if len(known) == len(hashes) else None


def _hash_column(column: Any) -> str | None:
    if not isinstance(column, Tensor):
        return _hash_entries(column) if isinstance(column, list) else None
    return hash_tensor(column) if column.layout == torch.strided and not column.is_quantized else None


def hash_tensor(tensor: Tensor) -> str:
    """A hash of the values by their places."""
    made = hashlib.blake2b(f"{tensor.dtype}{tuple(tensor.shape)}".encode(), digest_size=8)
    if tensor.numel():
        rows = tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach()
        at_once = max(1, ROWS_BYTES // (rows[0].numel() * rows.element_size()))
        for start in range(0, len(rows), at_once):
            flat = rows[start : start + at_once].cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            _add_bytes(made, flat)
    return made.hexdigest()


def _add_bytes(made: "hashlib.blake2b", flat: Any) -> None:
    """Add the sums of the blocks, and the bytes that make no word."""
    words = flat[: len(flat) // 8 * 8].view(np.uint64)
    blocks = words[: len(words) // WORDS * WORDS].reshape(-1, WORDS)
    mixed, sums = np.empty((BLOCKS, WORDS), np.uint64), np.empty(len(blocks), np.uint64)
    for start in range(0, len(blocks), BLOCKS):
        some = blocks[start : start + BLOCKS]
        np.right_shift(some, _HALF, out=mixed[: len(some)])
        np.bitwise_xor(mixed[: len(some)], some, out=mixed[: len(some)])
        np.matmul(mixed[: len(some)], _WEIGHTS, out=sums[start : start + BLOCKS])
    made.update(sums.tobytes())
    made.update(flat[blocks.nbytes :].tobytes())


def _hash_entries(entries: list[Any]) -> str | None:
    """A hash of plain things in a list; None where there is something else among them."""
    made = hashlib.blake2b(digest_size=8)
    for entry in entries:
        for leaf in _leaves(entry):
            if isinstance(leaf, np.ndarray | Tensor):
                array = leaf.detach().cpu().numpy() if isinstance(leaf, Tensor) and leaf.dtype is not torch.bfloat16 else leaf
                if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
                    return None
                made.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
            elif leaf is None or isinstance(leaf, str | bytes | int | float | np.generic):
                made.update(f"{leaf!r}\n".encode())
            else:
                return None
    return made.hexdigest()


def _leaves(entry: Any) -> Iterator[Any]:
    if isinstance(entry, Mapping):
        for key, part in entry.items():
            yield str(key)
            yield from _leaves(part)
    elif isinstance(entry, list | tuple):
        yield len(entry)
        for part in entry:
            yield from _leaves(part)
    else:
        yield entry
