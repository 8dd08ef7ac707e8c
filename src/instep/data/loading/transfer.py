"""Sending: what goes between a loader and its workers, and what is done so that it arrives.

Small tensors travel inside the message: a piece of shared memory of their own costs more than they do.
"""

import pickle
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from instep.data.position import Indices, Position
from instep.data.structure import is_record, map_columns
from instep.errors import DataError

SMALL_BYTES = 16_384
_PLAIN = frozenset({str, bytes, int, float, bool, complex, type(None)})


class Request(NamedTuple):
    """A batch that a worker is to load: which one of its epoch, where it stands, and its samples."""

    index: int  # type: ignore[assignment]
    at: Position
    indices: Indices  # those that are loaded here
    samples: int  # of the whole batch


class Inline(np.ndarray[Any, Any]):
    """A small tensor on its way, as an array."""


def outgoing(batch: Any, name: str) -> Any:
    """A batch as a worker sends it. What could not be sent would be lost without a word, and the loader wait for ever."""
    _check_sendable(batch, name)
    return map_columns(_lightened, batch)


def incoming(batch: Any) -> Any:
    """A batch as it was before it was sent."""
    return map_columns(_restored, batch)


def _lightened(column: Any) -> Any:
    is_small = isinstance(column, Tensor) and column.numel() * column.element_size() <= SMALL_BYTES
    if not is_small or column.requires_grad or column.layout is not torch.strided or column.dtype not in _KNOWN_TO_NUMPY:
        return column
    return column.contiguous().numpy().view(Inline)


def _restored(column: Any) -> Any:
    return torch.from_numpy(column.view(np.ndarray)) if isinstance(column, Inline) else column


_KNOWN_TO_NUMPY = frozenset(
    {torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool}
)


def _check_sendable(thing: Any, name: str) -> None:
    if isinstance(thing, Tensor) or type(thing) in _PLAIN or (isinstance(thing, np.ndarray) and thing.dtype != object):
        return
    if type(thing) is list and _PLAIN.issuperset(map(type, thing)):
        return
    if isinstance(thing, Mapping):
        parts = list(thing.values())
    elif isinstance(thing, tuple | list):
        parts = list(thing)
    elif is_record(thing):
        parts = [getattr(thing, f.name) for f in fields(thing)]
    else:
        try:
            pickle.dumps(thing)
        except Exception as error:
            raise DataError(
                f"a batch of {name} holds a {type(thing).__name__}, which cannot be sent from a worker ({error}); "
                "leave it out of the sample, or use num_workers=0."
            ) from None
        return
    for part in parts:
        _check_sendable(part, name)
