"""Copies of what users pass, to look at instead of it: what a look changes in a copy, it does not change in the run.

A copy has its own arrays, generators, lists and closures. Classes, modules and plain functions are taken as they are, and so are
the global generators, which are keyed. What cannot be copied, or is too large for a look, says why.
"""

import copy
import io
import pickle
import random
import time
from collections.abc import Sequence
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

CHECKED_EVERY = 4096  # things between two looks at the clock
_PLAIN = frozenset({str, bytes, int, float, bool, complex, type(None)})
_CONTAINERS = (tuple, list, dict, set)
_ARRAYS = (Tensor, np.ndarray)
_EMPTY = object()


class NoCopy(Exception):
    """A copy cannot be had; its text is the reason."""


class Copies:
    """Something from which copies can be made, each as it is now.

    `most_bytes` is how large it may be, `most_s` how long finding out about it may take. A list or dictionary of more than
    `most_entries` is copied with the same entries in it. Of a NumPy array of more than `most_copied_bytes` a copy has a view
    that cannot be written to; `as_they_are` are not copied at all.
    """

    def __init__(
        self,
        thing: Any,
        *,
        most_bytes: float,
        most_s: float = float("inf"),
        most_entries: float = float("inf"),
        most_copied_bytes: float = float("inf"),
        as_they_are: Sequence[Any] = (),
    ) -> None:
        self.most_entries, self._most_copied_bytes = most_entries, most_copied_bytes
        self.as_they_are = {id(one) for one in as_they_are}
        self._by_deepcopy = thing if hasattr(type(thing), "__deepcopy__") and not isinstance(thing, _ARRAYS) else None
        self.kept: list[Any] = []  # what is not written out
        self._written = b""
        if self._by_deepcopy is None:
            self._written = self._write(thing, most_bytes, time.monotonic() + most_s)

    def make(self) -> Any:
        """One copy."""
        try:
            if self._by_deepcopy is not None:
                return copy.deepcopy(self._by_deepcopy)
            return _Reader(self._written, self).load()
        except Exception as error:  # of a class that can be written and not read
            raise NoCopy(_reason(error)) from error

    def is_viewed(self, array: Any) -> bool:
        return isinstance(array, np.ndarray) and array.nbytes > self._most_copied_bytes

    def copy_of(self, thing: Any) -> Any:
        """A copy of something that is not written out: an array, or a container of many things."""
        if not isinstance(thing, np.ndarray) or not self.is_viewed(thing):
            return copy.deepcopy(thing) if isinstance(thing, _ARRAYS) else copy.copy(thing)
        view = thing.view()
        view.flags.writeable = False
        return view

    def _write(self, thing: Any, most_bytes: float, deadline: float) -> bytes:
        file = io.BytesIO()
        try:
            _Writer(file, self, most_bytes, deadline).dump(thing)
        except NoCopy:
            raise
        except Exception as error:  # whatever the __reduce__ of a user's class raises
            raise NoCopy(_reason(error)) from error
        return file.getvalue()


def copied(thing: Any, *, most_bytes: float = 2e9) -> Any:
    """A copy; NoCopy where there can be none."""
    return Copies(thing, most_bytes=most_bytes).make()


class _AsIs:
    """Something to be taken as it is where a copy is made."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing


class _Writer(pickle.Pickler):
    def __init__(self, file: io.BytesIO, copies: Copies, most_bytes: float, deadline: float) -> None:
        super().__init__(file, protocol=5)
        self._file, self._copies, self._kept = file, copies, copies.kept
        self._numbers: dict[int, int] = {}  # of what is kept, by its id
        self._most_bytes, self._deadline = most_bytes, deadline
        self._array_bytes = self._seen = 0

    def persistent_id(self, thing: Any) -> int | None:
        self._seen += 1
        if not self._seen % CHECKED_EVERY:
            self._require_small()
        if type(thing) in _PLAIN:
            return None
        if type(thing) in _CONTAINERS:
            return self._keep(thing) if len(thing) > self._copies.most_entries else None
        if isinstance(thing, _ARRAYS) and type(thing).__module__.partition(".")[0] in ("torch", "numpy"):
            if not (isinstance(thing, np.ndarray) and thing.dtype == object):
                return self._keep(thing)
            return None
        return self._keep(thing) if id(thing) in self._copies.as_they_are or _stays(thing) else None

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is not FunctionType:
            return NotImplemented
        contents = [_content(cell) for cell in thing.__closure__ or ()]
        return _shell, (_AsIs(thing),), (contents, thing.__defaults__), None, None, _fill

    def _keep(self, thing: Any) -> int:
        number = self._numbers.setdefault(id(thing), len(self._kept))
        if number == len(self._kept):
            self._kept.append(thing)
            if isinstance(thing, _ARRAYS) and not self._copies.is_viewed(thing):
                self._array_bytes += thing.nbytes
                self._require_small()
        return number

    def _require_small(self) -> None:
        if self._array_bytes + self._file.tell() > self._most_bytes:
            raise NoCopy(f"it holds more than {self._most_bytes / 1e6:,.0f} MB")
        if time.monotonic() > self._deadline:
            raise NoCopy("it holds too many things")


class _Reader(pickle.Unpickler):
    def __init__(self, written: bytes, copies: Copies) -> None:
        super().__init__(io.BytesIO(written))
        self._copies = copies
        self._made: dict[int, Any] = {}

    def persistent_load(self, number: int) -> Any:
        thing = self._copies.kept[number]
        if not isinstance(thing, (*_ARRAYS, *_CONTAINERS)):
            return thing.thing if isinstance(thing, _AsIs) else thing
        if number not in self._made:
            self._made[number] = self._copies.copy_of(thing)
        return self._made[number]


def _stays(thing: Any) -> bool:
    """Whether it is taken as it is: code, and the global generators, which every sample is keyed with."""
    if isinstance(thing, type | ModuleType | _AsIs):
        return True
    if type(thing) is FunctionType:
        return not thing.__closure__ and not thing.__defaults__
    return is_keyed(thing)


def is_keyed(thing: Any) -> bool:
    """Whether it is one of the global generators, which are keyed for each sample."""
    return thing is random.seed.__self__ or thing is np.random.mtrand._rand or thing is torch.default_generator  # type: ignore[attr-defined]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return _AsIs(_EMPTY)


def _shell(function: FunctionType) -> FunctionType:
    """The same function with variables of its own, which are filled afterwards: a function may be among its own variables."""
    cells = tuple(CellType() for _ in function.__closure__ or ())
    made = FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)
    made.__kwdefaults__, made.__qualname__, made.__module__ = function.__kwdefaults__, function.__qualname__, function.__module__
    return made


def _fill(function: FunctionType, state: tuple[list[Any], tuple[Any, ...] | None]) -> None:
    contents, function.__defaults__ = state
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        if content is not _EMPTY:
            cell.cell_contents = content


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
