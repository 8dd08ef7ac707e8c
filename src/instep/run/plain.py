"""Plain values: numbers, words, and small collections of them, as a description keeps them and compares them.

What differs between two processes of one script is left out: addresses, paths, times of the clock, where it computes.
"""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor

UNKNOWN: Any = object()  # in place of a value that says nothing about the result, or cannot be compared
MOST_ENTRIES = 64
MOST_NUMBERS = 1_000_000
SHOWN_NUMBERS = 8
CLOCK_S = (1e9, 1e10)  # numbers that are seconds since 1970, and hardly anything else
# How a run is run, and not what comes of it.
_HOW = frozenset({"rank", "local_rank", "world_size", "device", "num_workers", "workers", "verbose", "gradient_checkpointing"})
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DEVICE = re.compile(r"(cpu|cuda|mps|xpu|hpu|meta)(:\d+)?")


def plain(value: Any, name: str = "") -> Any:
    """A value in JSON, or UNKNOWN. `name` is what it is called: some names say how a run is run."""
    if name.lower().strip("_") in _HOW:
        return UNKNOWN
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        is_of_machine = "/" in value or "\\" in value or _DEVICE.fullmatch(value)
        return UNKNOWN if is_of_machine else value if len(value) <= 200 else {"text": len(value), "hash": digest([value])}
    if isinstance(value, torch.dtype | complex | range | slice):
        return str(value)
    if isinstance(value, Tensor | np.ndarray):
        return _numbers(value)
    return _collection(value)


def _number(value: float) -> Any:
    if CLOCK_S[0] < value < CLOCK_S[1]:
        return UNKNOWN
    return value if math.isfinite(value) else str(value)


def _numbers(value: Any) -> Any:
    """A few numbers as they are, more of them by a hash; those of a model are no plain values."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            return UNKNOWN
        value = torch.from_numpy(np.ascontiguousarray(value))
    if value.requires_grad or value.is_meta or value.layout != torch.strided or value.numel() > MOST_NUMBERS:
        return UNKNOWN
    if value.numel() <= SHOWN_NUMBERS:
        return plain(value.tolist())
    return {"shape": list(value.shape), "dtype": str(value.dtype), "hash": digest([value])}


def _collection(value: Any) -> Any:
    if callable(value):
        return UNKNOWN
    if isinstance(value, set | frozenset):
        return (
            sorted(map(repr, value))
            if len(value) <= MOST_ENTRIES and all(isinstance(one, str | int) for one in value)
            else UNKNOWN
        )
    if is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name, None) for field in fields(value)}
    if isinstance(value, Mapping):
        named = {str(key): inner for key, inner in value.items() if isinstance(key, str | int | float)}
        pairs = {key: plain(inner, key) for key, inner in named.items()} if len(value) <= MOST_ENTRIES else {}
        return {key: inner for key, inner in pairs.items() if inner is not UNKNOWN} or UNKNOWN
    if isinstance(value, list | tuple) and len(value) <= MOST_ENTRIES:
        entries = [plain(inner) for inner in value]
        return UNKNOWN if any(entry is UNKNOWN for entry in entries) else entries
    return UNKNOWN


def digest(found: list[Any]) -> str:
    """A hash of tensors by their bytes, and of other things by how they print, without their addresses."""
    made = hashlib.blake2b(digest_size=8)
    for column in found:
        if isinstance(column, Tensor):
            raw = column.detach().cpu().contiguous().reshape(-1)
            made.update(raw.view(torch.uint8).numpy().tobytes() if raw.numel() else b"")
        else:
            made.update(without_addresses(repr(column)).encode())
    return made.hexdigest()


def without_addresses(text: str) -> str:
    return _ADDRESS.sub("", text)
