"""Sources: what users pass as data, made uniform. This file owns what is accepted and what is said of the rest.

A source has a length and fetches the batch of any samples by their indices; a stream is read from its beginning. In which order
samples come is the loader's business.
"""

import functools
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset

from instep.data.position import Collate as Collate
from instep.data.position import Position as Position
from instep.data.position import Source as Source
from instep.data.sources.columns import Columns, Rows, chained
from instep.data.sources.dataloader import dataloader_parts
from instep.data.sources.files import from_file
from instep.data.sources.frame import (
    FrameLayout,
    as_target,
    beside_frame,
    columns_of,
    is_frame,
    is_series,
    is_wide,
    layout_of,
)
from instep.data.sources.hugging_face import has_own_transform, is_splits, with_tensors
from instep.data.sources.samples import Samples
from instep.data.sources.stream import Called, Stream
from instep.data.sources.target import Targeted
from instep.data.sources.underlying import frame_layout
from instep.data.sources.view import Listed, Ranged, View
from instep.data.sources.view import held_out as held_out
from instep.data.structure import columns, is_record
from instep.errors import DescriptionError
from instep.records import record_class
from instep.text import listed, plural


@record_class
class Reading:
    """How what was passed is to be read, where that is not plain."""

    target: str | Sequence[str] | None = None
    collate: Collate | None = None
    dtype: torch.dtype | None = None  # of the model's parameters: tables are read in it, and no float64 stays for float32
    # For data that goes with other data, which was trained on:
    layout: FrameLayout | None = None  # of its frame
    names: Sequence[str] | None = None  # of its inputs, where it is no frame
    target_is_inherited: bool = False  # so that data without names is taken to have none
    target_needed: bool = True  # an output can be predicted without one


def as_source(data: Any, name: str, reading: Reading = Reading()) -> Source:  # noqa: B008  # it is frozen
    """What a user passed, as a source; `name` is the argument's name, for the errors."""
    found = as_data(data, name, reading)
    if isinstance(found, Stream):
        raise DescriptionError(f"{name} is read from its beginning only, and here any sample is wanted; pass a Dataset.")
    return found


def as_data(data: Any, name: str, reading: Reading = Reading()) -> Source | Stream:  # noqa: B008
    """What a user passed, as a source, or as a stream where it can only be iterated."""
    source = _recognised(data, name, reading)
    if isinstance(source, Stream):
        return source
    if len(source) == 0:
        raise DescriptionError(f"{name} holds no sample.")
    if reading.target is None or frame_layout(source) is not None:
        return source
    return Targeted(
        source,
        reading.target,
        names=reading.names,
        is_needed=reading.target_needed,
        is_inherited=reading.target_is_inherited,
    )


def _recognised(data: Any, name: str, reading: Reading) -> Source | Stream:
    in_columns = _columns(data, name, reading)
    if in_columns is not None:
        if reading.collate is None:
            return in_columns
        return Samples(Rows(in_columns), name, collate=reading.collate, batched_fetch=True)
    if isinstance(data, DataLoader):
        parts = dataloader_parts(data, name)
        return _recognised(parts.dataset, name, replace(reading, collate=reading.collate or parts.collate))
    if _is(data, Subset):
        return _subset(data, name, reading)
    if _is(data, ConcatDataset) and (whole := _concatenated(data, name, reading)) is not None:
        return whole
    if is_splits(data):
        raise DescriptionError(
            f"{name} holds the splits {', '.join(map(str, data))}; pass one of them: data[{next(iter(data))!r}]."
        )
    if isinstance(data, Mapping | tuple) or is_record(data):
        raise DescriptionError(f"{name} is a {type(data).__name__} without a tensor in it; pass for example (x, y).")
    is_of_tensors = isinstance(data, list) and bool(data) and all(isinstance(part, Tensor | np.ndarray) for part in data)
    if is_of_tensors and reading.collate is None:  # what is collated are samples
        raise DescriptionError(_could_be_both(data, name))
    if isinstance(data, list) and len({isinstance(part, Tensor | np.ndarray) for part in data}) == 2:
        raise DescriptionError(
            f"{name} is a list of {len(data)} unlike entries, {listed(type(part).__name__ for part in data)}, so they are no "
            "samples; pass a tuple for columns: (x, y), or ((a, b), y) for several inputs."
        )
    if _is_iterable_only(data):
        return _stream(data, name, reading)
    if isinstance(data, int | float) and name == "valid":
        raise DescriptionError(
            f"valid={data!r} is no data; pass data, or a share of the training data between 0 and 1, like 0.1."
        )
    if not _is_map_style(data):
        raise DescriptionError(
            f"{name} is of type {type(data).__name__}; pass tensors, arrays, a tuple or mapping of them, a Dataset with "
            "__getitem__ and __len__, a DataLoader, an IterableDataset, a function that returns an iterator, or a .npy or "
            ".safetensors file."
        )
    batched_fetch = False if has_own_transform(data) else None
    return Samples(with_tensors(data, reading.collate), name, collate=reading.collate, batched_fetch=batched_fetch)


def _columns(data: Any, name: str, reading: Reading) -> Columns | None:
    """What is in columns: tensors, arrays and files, in any structure."""
    if _is(data, TensorDataset):
        return Columns(data.tensors, name, dtype=reading.dtype)
    if is_frame(data) or (reading.layout is not None and isinstance(data, Mapping) and data):
        return _table(data, name, reading)
    if isinstance(data, str | Path) and (isinstance(data, Path) or _looks_like_a_file(data)):
        return Columns(from_file(Path(data), name), name, dtype=reading.dtype)
    if isinstance(data, Tensor | np.ndarray):
        if data.ndim == 0:
            raise DescriptionError(f"{name} is a single number; pass a tensor with one entry a sample.")
        return Columns(data, name, dtype=reading.dtype)
    if (whole := beside_frame(data, reading.layout, name)) is not None:
        if reading.layout is None and reading.target_is_inherited:
            raise DescriptionError(_no_names(name))
        return _table(whole.frame, name, replace(reading, target=whole.target))
    if isinstance(data, Mapping | tuple) or is_record(data):
        opened = _opened(data, name, as_numbers=reading.collate is None)
        return None if next(columns(opened), None) is None else Columns(opened, name, dtype=reading.dtype)
    return None


def _table(data: Any, name: str, reading: Reading) -> Columns:
    """A frame, or a mapping of columns where a frame was trained on."""
    if reading.layout is None and not reading.target_needed:
        raise DescriptionError(_no_names(name))
    layout = reading.layout or layout_of(data, reading.target, name)
    pair = columns_of(data, layout, name, dtype=reading.dtype or torch.float32, target_needed=reading.target_needed)
    return Columns(pair, name, layout=layout, is_narrowed=reading.dtype is torch.float32 and is_wide(data, layout))


def _no_names(name: str) -> str:
    return (
        f"{name} is a frame, and the training data is none, so its columns have no names to go by; pass "
        "frame[columns].to_numpy() with the columns in the order of the training data."
    )


def _could_be_both(data: list[Any], name: str) -> str:
    """A list of tensors: what to pass where they are samples, and where they are columns."""
    alike = len({tuple(part.shape) for part in data}) == 1
    stack = "torch.stack" if all(isinstance(part, Tensor) for part in data) else "np.stack"
    samples = f"{stack}({name})" if alike else f"data.source([(x,) for x in {name}], collate_fn=…), since their shapes differ"
    return (
        f"{name} is a list of {plural(len(data), 'tensor')}, which could be samples or columns; where each is a sample pass "
        f"{samples}, or [(x, y), …] with a target; where each is a column pass a tuple: (x, y)."
    )


def _opened(data: Any, name: str, *, as_numbers: bool) -> Any:
    """A tuple or mapping with the files in it opened, and with the columns of frames and (`as_numbers`) lists as tensors."""
    if isinstance(data, Mapping):
        return {key: _opened_part(part, name, as_numbers) for key, part in data.items()}
    return tuple(_opened_part(part, name, as_numbers) for part in data) if type(data) is tuple else data


def _opened_part(part: Any, name: str, as_numbers: bool) -> Any:
    if isinstance(part, Path) or (isinstance(part, str) and _looks_like_a_file(part)):
        return from_file(Path(part), name)
    if is_series(part):
        return as_target(part, name)
    return _as_tensor(part) if as_numbers and isinstance(part, list) else part


def _as_tensor(part: list[Any]) -> Any:
    """Lists of numbers, all of one length, as a tensor; other lists as they are."""
    first: Any = part
    while isinstance(first, list) and first:
        first = first[0]
    if not isinstance(first, int | float):
        return part
    try:
        return torch.tensor(part)
    except (TypeError, ValueError, RuntimeError):
        return part


def _subset(data: Subset[Any], name: str, reading: Reading) -> View:
    source = _recognised(data.dataset, name, reading)
    if isinstance(source, Stream):
        raise DescriptionError(f"{name} is a Subset of an iterable, which has no indices.")
    n = len(source)
    if isinstance(data.indices, range):
        ends = (data.indices[0], data.indices[-1]) if data.indices else ()
        wrong = [end for end in ends if not 0 <= end < n]
        picks: Listed | Ranged = Ranged(data.indices)
    else:
        indices = torch.as_tensor(np.asarray(data.indices, dtype=np.int64))
        wrong = indices[(indices < 0) | (indices >= n)].tolist()
        picks = Listed(indices)
    if wrong:
        raise DescriptionError(f"{name} is a Subset with index {wrong[0]}, its data set has {plural(n, 'sample')}.")
    return View(source, picks)


def _concatenated(data: ConcatDataset[Any], name: str, reading: Reading) -> Source | None:
    """One source of several data sets in memory, where their columns continue each other."""
    parts = [_columns(part, name, Reading(dtype=reading.dtype)) if not is_frame(part) else None for part in data.datasets]
    known = [part for part in parts if part is not None]
    return chained(known, name) if len(known) == len(parts) else None


def _stream(data: Any, name: str, reading: Reading) -> Stream:
    if reading.target is not None and not reading.target_is_inherited:
        raise DescriptionError(f"target= is for data with named columns, and {name} is an iterable; let it give (x, y).")
    if _is_function(data):
        _require_no_arguments(data, name)
        return Stream(Called(data), name, length=None, collate=reading.collate)
    if hasattr(data, "__next__"):
        raise DescriptionError(
            f"{name} is a {type(data).__name__}, which can be read only once; pass the function that makes it, so that every "
            "epoch can begin anew."
        )
    return Stream(with_tensors(data, reading.collate), name, length=_length(data), collate=reading.collate)


def _require_no_arguments(function: Any, name: str) -> None:
    try:
        inspect.signature(function).bind()
    except TypeError:
        called = getattr(function, "__name__", "it")
        raise DescriptionError(
            f"{name} is a function that needs arguments; pass functools.partial({called}, …) or one that needs none."
        ) from None


# --- Finding out what was passed: the one place that does.


def _is(data: Any, kind: type) -> bool:
    """Whether it is one of torch's data sets as torch made it: a subclass with a `__getitem__` of its own is something else."""
    return isinstance(data, kind) and all(
        getattr(type(data), method, None) is getattr(kind, method, None) for method in ("__getitem__", "__getitems__", "__len__")
    )


def _is_iterable_only(data: Any) -> bool:
    if isinstance(data, IterableDataset):
        return True
    if isinstance(data, str | bytes | type) or hasattr(data, "__getitem__"):
        return False
    return hasattr(data, "__iter__") or _is_function(data)


def _is_function(data: Any) -> bool:
    return inspect.isroutine(data) or isinstance(data, functools.partial)


def _is_map_style(data: Any) -> bool:
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, str | bytes | type)


def _length(data: Any) -> int | None:
    try:
        return len(data)
    except TypeError:  # it has none, or says in this way that it does not know
        return None


def _looks_like_a_file(text: str) -> bool:
    return text.endswith((".npy", ".npz", ".safetensors"))
