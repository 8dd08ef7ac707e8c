"""Frozen values: what an attribute holds, copied so that it can be compared and kept; and put back where it came from."""

import copy
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from instep.loop.generators import GENERATORS, make_generator, read_generator, same_place, write_generator
from instep.records import GeneratorState

MOST_ENTRIES = 10_000  # of a list or a dictionary; what is longer is not compared
_DEEPEST = 20
_LARGE = 2**16  # elements; of tensors from there on sums are compared, and no copy is held
PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_SEQUENCES = (list, tuple, set, frozenset, deque)
CONTAINERS = (*_MAPPINGS, *_SEQUENCES)


class NotFrozen(Exception):
    """The value has something in it that is unknown here."""


class TooLong(Exception):
    """The value has more entries than are looked at."""


class Summed(NamedTuple):
    """A large tensor or array, by the sums over its bits."""

    dtype: str
    shape: tuple[int, ...]
    sums: tuple[int, ...]


def freeze(value: Any, *, left: Collection[int] = (), large: int | None = _LARGE, depth: int = 0) -> Any:
    """A copy; `left` are the addresses of tensors that are kept elsewhere. With `large=None` no tensor is summed up."""
    kind = type(value)
    if kind in PLAIN or isinstance(value, np.generic):
        return value
    if isinstance(value, Tensor):
        return _freeze_tensor(value, left, large)
    if kind is np.ndarray and value.dtype.kind in "biufc":
        return value.copy() if large is None or value.size < large else _sum_up(torch.from_numpy(np.ascontiguousarray(value)))
    if isinstance(value, GENERATORS):
        return read_generator(value)
    if kind not in CONTAINERS or depth > _DEEPEST:
        raise NotFrozen
    if len(value) > MOST_ENTRIES:
        raise TooLong

    def inner(values: Iterable[Any]) -> list[Any]:
        return [freeze(one, left=left, large=large, depth=depth + 1) for one in values]

    if kind in _MAPPINGS:
        if not all(type(key) in PLAIN or type(key) is tuple for key in value):
            raise NotFrozen
        frozen = copy.copy(value)
        for key, one in zip(value, inner(value.values()), strict=True):
            frozen[key] = one
        return frozen
    if kind in (set, frozenset) and not all(type(entry) in PLAIN for entry in value):
        raise NotFrozen
    return deque(inner(value), value.maxlen) if kind is deque else kind(inner(value))


def address(tensor: Tensor) -> int:
    """Where its memory begins; what has none of its own is known by itself."""
    if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer) or tensor.layout != torch.strided:
        return id(tensor)
    return tensor.untyped_storage().data_ptr() or id(tensor)


def _freeze_tensor(value: Tensor, left: Collection[int], large: int | None) -> Any:
    is_plain = type(value) in (Tensor, nn.Parameter, nn.Buffer) and value.layout == torch.strided
    if not is_plain or value.is_meta or value.is_quantized or address(value) in left:
        raise NotFrozen
    value = value.detach()
    return value.clone() if large is None or value.numel() < large else _sum_up(value)


def _sum_up(value: Tensor) -> Summed:
    """The sum over all bits taken as whole numbers, and over every other one, so that an exchange of two shows."""
    if value.is_complex():
        value = torch.view_as_real(value)
    bits = value.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()])
    bits = bits.reshape(-1)
    return Summed(str(value.dtype), tuple(value.shape), (int(bits.sum(dtype=torch.int64)), int(bits[::2].sum(dtype=torch.int64))))


def same(one: Any, other: Any) -> bool:
    """Whether two frozen values are equal bit for bit."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and _bytes(one) == _bytes(other)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, GeneratorState):
        return same_place(one, other)
    if isinstance(one, _MAPPINGS):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | deque) or type(one) is tuple:
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other) if isinstance(one, float | complex | np.generic) else bool(one == other)


def has_sums(frozen: Any) -> bool:
    """Whether something in it was summed up, so that it cannot be put back."""
    if isinstance(frozen, Summed):
        return True
    if type(frozen) in CONTAINERS:
        return any(map(has_sums, frozen.values() if isinstance(frozen, dict) else frozen))
    return False


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


class Thawing:
    """Puts frozen values back: into the tensors, lists and generators that are there, where they are of the same form.

    `apart` are the addresses of tensors that several names have at the start of a run, and not later on.
    """

    def __init__(self, device: torch.device, apart: Collection[int]) -> None:
        self._device = device  # for tensors that have no place yet
        self._apart = apart

    def thaw(self, now: Any, frozen: Any) -> Any:
        """What belongs in the place where `now` is: the same thing with other contents, if it can have them."""
        if isinstance(frozen, Tensor):
            return self._thaw_tensor(now, frozen)
        if isinstance(frozen, GeneratorState):
            try:
                write_generator(now, frozen)
            except (TypeError, ValueError, RuntimeError, AttributeError, KeyError):
                return make_generator(frozen)
            return now
        kind = type(frozen)
        if kind is np.ndarray and type(now) is kind and (now.shape, now.dtype) == (frozen.shape, frozen.dtype):
            np.copyto(now, frozen)
            return now
        if kind in _MAPPINGS:
            held = now if type(now) is kind else copy.copy(frozen)
            items = [(key, self.thaw(held.get(key), value)) for key, value in frozen.items()]
            held.clear()
            for key, value in items:
                held[key] = value
            return held
        if kind in (list, tuple, deque):
            before = list(now) if type(now) is kind else []
            before += [None] * (len(frozen) - len(before))
            entries = [self.thaw(one, value) for one, value in zip(before, frozen, strict=False)]
            return tuple(entries) if kind is tuple else _refill(now, frozen, entries)
        return frozen

    def _thaw_tensor(self, now: Any, frozen: Tensor) -> Tensor:
        if not isinstance(now, Tensor) or (now.shape, now.dtype) != (frozen.shape, frozen.dtype) or address(now) in self._apart:
            return frozen.to(now.device if isinstance(now, Tensor) else self._device, copy=True)
        with torch.no_grad():
            now.detach().copy_(frozen)
        return now


def _refill(now: Any, frozen: Any, entries: list[Any]) -> Any:
    held = now if type(now) is type(frozen) else copy.copy(frozen)
    held.clear()
    held.extend(entries)
    return held
