"""The header of a safetensors file: from a layout to bytes, and from bytes that nobody vouches for back to a layout.

The format: 8 bytes of length, that much JSON (`name: {dtype, shape, data_offsets}`), then the data without gaps. What it has no
word for stands as JSON under `__metadata__`: dtypes, strides, views. Other libraries read such a file and see plain tensors.
"""

import math
from collections.abc import Mapping
from typing import Any, BinaryIO

from instep.checkpoint import jsontext
from instep.checkpoint.dtypes import BY_NAME, KEPT_BY_NAME, NAMES, STORED_AS, name_of, stored_form
from instep.checkpoint.layout import Layout, StoredTensor
from instep.checkpoint.strides import extent, is_dense
from instep.checkpoint.ties import TensorView
from instep.errors import CheckpointError

METADATA, OURS = "__metadata__", "instep"
_LIMIT_DIMENSIONS = 64  # torch's own


def render(layout: Layout, what: str) -> bytes:
    """The length and the JSON, padded so that the data begin at a multiple of 8."""
    entries: dict[str, Any] = {METADATA: {"format": "pt", OURS: jsontext.render(_notes(layout), what).decode("ascii")}}
    end = 0
    for one in layout.stored:
        if one.name == METADATA:
            raise CheckpointError(f"{what}: a tensor cannot be called {METADATA}; the format means something else by it.")
        dtype, shape = stored_form(one.dtype, one.shape)
        begin, end = end, end + one.size_bytes
        entries[one.name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [begin, end]}
    text = jsontext.render(entries, f"the header of {what}")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _notes(layout: Layout) -> dict[str, Any]:
    return {
        "dtypes": {one.name: name_of(one.dtype) for one in layout.stored if one.dtype in STORED_AS},
        "strides": {one.name: list(one.strides) for one in layout.stored if one.strides is not None},
        "views": {name: [view.of, list(view.shape), list(view.strides), view.offset] for name, view in layout.views.items()},
    }


def read(file: BinaryIO, file_bytes: int) -> tuple[bytes, Layout]:
    """The header at the beginning of a file of this size: its bytes, and the layout that they describe."""
    first = file.read(8)
    text = file.read(_length(first, file_bytes))
    return first + text, parse(text, file_bytes - 8 - len(text))


def _length(first: bytes, file_bytes: int) -> int:
    length = int.from_bytes(first, "little")
    if len(first) != 8 or length > file_bytes - 8:
        raise CheckpointError("it ends before its header does")
    if length > jsontext.LIMIT_BYTES:
        raise CheckpointError(f"its header claims {length:,} bytes; at most {jsontext.LIMIT_BYTES:,} are read")
    return length


def parse(text: bytes, data_bytes: int) -> Layout:
    """The layout that a header describes, which fills exactly this much data; anything else about it is refused."""
    # A tensor takes some 50 bytes of JSON and 3 brackets; a text of brackets alone would take 20 times its size in memory.
    if text.count(b"[") + text.count(b"{") > len(text) // 8 + 8:
        raise CheckpointError("its header is made of brackets")
    entries = jsontext.parse(text, "its header")
    if not isinstance(entries, dict):
        raise CheckpointError("its header is no JSON object")
    notes = _read_notes(entries.pop(METADATA, {}))
    spans: list[tuple[int, int, StoredTensor]] = []
    for name, entry in entries.items():
        begin, end, stored = _read_entry(name, entry, notes)
        spans.append((begin, end, stored))
    spans.sort(key=lambda span: span[:2])
    place = 0
    for begin, end, stored in spans:
        if begin != place:
            raise CheckpointError(f"tensor {stored.name[:80]!r} begins at byte {begin:,} of the data, not at {place:,}")
        place = end
    if place != data_bytes:
        raise CheckpointError(f"its header describes {place:,} bytes of data, it has {data_bytes:,}")
    by_name = {stored.name: stored for _, _, stored in spans}
    _require_known("dtypes", notes["dtypes"], by_name)
    _require_known("strides", notes["strides"], by_name)
    views = {name: _read_view(name, entry, by_name) for name, entry in notes["views"].items()}
    return Layout(tuple(stored for _, _, stored in spans), views)


def _read_notes(metadata: Any) -> dict[str, dict[str, Any]]:
    empty: dict[str, dict[str, Any]] = {"dtypes": {}, "strides": {}, "views": {}}
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{METADATA} of its header is no mapping of texts")
    if OURS not in metadata:
        return empty  # written by another library: plain tensors
    notes = jsontext.parse(metadata[OURS].encode("utf-8", "replace"), "the notes in its header")
    if not isinstance(notes, dict) or set(notes) != set(empty) or not all(isinstance(note, dict) for note in notes.values()):
        raise CheckpointError(f"the notes in its header are not {', '.join(empty)}")
    return notes


def _read_entry(name: str, entry: Any, notes: Mapping[str, Mapping[str, Any]]) -> tuple[int, int, StoredTensor]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"tensor {name[:80]!r} is not described by dtype, shape and data_offsets")
    dtype = BY_NAME.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise CheckpointError(f"tensor {name[:80]!r} has the unknown dtype {str(entry['dtype'])[:40]!r}")
    shape = _whole_numbers(name, "shape", entry["shape"])
    offsets = _whole_numbers(name, "data_offsets", entry["data_offsets"])
    if len(shape) > _LIMIT_DIMENSIONS or len(offsets) != 2 or math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise CheckpointError(f"tensor {name[:80]!r} has a shape that does not fit its place in the file")
    if name in notes["dtypes"]:
        kept = KEPT_BY_NAME.get(notes["dtypes"][name]) if isinstance(notes["dtypes"][name], str) else None
        if kept is None or not shape or stored_form(kept, shape[:-1]) != (dtype, shape):
            raise CheckpointError(f"tensor {name[:80]!r} is noted as {str(notes['dtypes'][name])[:40]!r}, which it cannot be")
        dtype, shape = kept, shape[:-1]
    strides = None
    if name in notes["strides"]:
        strides = _whole_numbers(name, "strides", notes["strides"][name])
        if len(strides) != len(shape) or not is_dense(shape, strides):
            raise CheckpointError(f"tensor {name[:80]!r} is noted with strides that it cannot have")
    return offsets[0], offsets[1], StoredTensor(name, dtype, shape, strides)


def _read_view(name: str, entry: Any, stored: Mapping[str, StoredTensor]) -> TensorView:
    if name in stored or not isinstance(entry, list) or len(entry) != 4 or not isinstance(entry[0], str):
        raise CheckpointError(f"the view {name[:80]!r} is not described by a name, a shape, strides and an offset")
    base = stored.get(entry[0])
    if base is None:
        raise CheckpointError(f"the view {name[:80]!r} is of {entry[0][:80]!r}, which is not in the file")
    shape, strides = _whole_numbers(name, "shape", entry[1]), _whole_numbers(name, "strides", entry[2])
    (offset,) = _whole_numbers(name, "offset", [entry[3]])
    size = math.prod(base.shape)
    if len(shape) != len(strides) or len(shape) > _LIMIT_DIMENSIONS or math.prod(shape) > size:
        raise CheckpointError(f"the view {name[:80]!r} is larger than {entry[0][:80]!r}")
    if offset + extent(shape, strides) > size:
        raise CheckpointError(f"the view {name[:80]!r} reaches outside of {entry[0][:80]!r}")
    return TensorView(entry[0], shape, strides, offset)


def _whole_numbers(name: str, what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < 2**62 for value in values):
        raise CheckpointError(f"{what} of tensor {name[:80]!r} are no whole numbers")
    return tuple(values)


def _require_known(what: str, notes: Mapping[str, Any], stored: Mapping[str, StoredTensor]) -> None:
    unknown = next((name for name in notes if name not in stored), None)
    if unknown is not None:
        raise CheckpointError(f"{what} are noted for {unknown[:80]!r}, which is not in the file")
