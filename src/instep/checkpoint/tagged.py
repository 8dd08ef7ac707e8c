"""Tagged JSON: the values that `state_dict()`s are made of, and the same values back.

JSON knows strings as keys, lists, finite numbers. Everything else is an object with one key that begins with "$": a Counter with
int keys is `{"$counter": [[3, 1]]}`, and comes back as a Counter with int keys. Tensors and arrays are handed to the caller and
referred to by name. A type that is not in the table is refused by its path. Decoding builds values of these types and no
others, so what is loaded cannot run code.
"""

import base64
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.checkpoint.jsontext import LIMIT_DEPTH, LIMIT_DIGITS, render
from instep.errors import CheckpointError
from instep.records import GeneratorState

# What a defaultdict may fill its gaps with: a name in the file is looked up here and nowhere else.
_FACTORIES: dict[str, Callable[[], Any]] = {
    factory.__name__: factory for factory in (int, float, bool, str, list, dict, set, tuple, Counter)
}
_DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
_SIZED = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32, np.float64]
_NUMPY: dict[str, np.dtype[Any]] = {
    np.dtype(kind).name: np.dtype(kind) for kind in (np.bool_, np.complex64, np.complex128, *_SIZED)
}


class Encoder:
    """Turns one value into tagged JSON; the tensors found on the way are in `tensors`, by the names the JSON refers to them."""

    def __init__(self, what: str) -> None:
        self._what = what  # how errors call the value
        self.tensors: dict[str, Tensor] = {}

    def encode(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if len(path) > LIMIT_DEPTH - 5:  # a tag and its list nest one level deeper than the value does
            raise CheckpointError(f"{self._named(path[:8])} … nests deeper than a checkpoint can hold; does it contain itself?")
        encode = _ENCODERS.get(kind)
        if encode is not None:
            return encode(self, value, path)
        if isinstance(value, np.generic) and value.dtype.name in _NUMPY:
            return {"$numpy": [value.dtype.name, base64.b64encode(value.tobytes()).decode()]}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        raise CheckpointError(
            f"{self._named(path)} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot keep; "
            "use numbers, strings, tensors, and lists, tuples, dictionaries or sets of them."
        )

    def _number(self, value: float, path: tuple[Any, ...]) -> Any:
        if type(value) is int:
            # 3 bits make less than a digit: what is above goes in hexadecimal, which has no limit on digits.
            return value if value.bit_length() < 3 * LIMIT_DIGITS else {"$int": hex(value)}
        return value if math.isfinite(value) else {"$float": str(value)}

    def _items(self, values: Any, path: tuple[Any, ...]) -> list[Any]:
        return [self.encode(value, (*path, index)) for index, value in enumerate(values)]

    def _pairs(self, values: Mapping[Any, Any], path: tuple[Any, ...]) -> list[Any]:
        return [[self.encode(key, (*path, "key")), self.encode(value, (*path, key))] for key, value in values.items()]

    def _dict(self, values: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        if all(type(key) is str and not key.startswith("$") for key in values):
            return {key: self.encode(value, (*path, key)) for key, value in values.items()}
        return {"$dict": self._pairs(values, path)}

    def _ordered(self, values: "OrderedDict[Any, Any]", path: tuple[Any, ...]) -> Any:
        """A module's state_dict carries the versions of its modules in an attribute; `load_state_dict` needs them."""
        pairs = self._pairs(values, path)
        metadata = vars(values).get("_metadata")
        return {"$ordered": pairs} if metadata is None else {"$state_dict": [pairs, self._pairs(metadata, (*path, "_metadata"))]}

    def _defaultdict(self, values: "defaultdict[Any, Any]", path: tuple[Any, ...]) -> Any:
        factory = None if values.default_factory is None else getattr(values.default_factory, "__name__", "")
        if factory is not None and _FACTORIES.get(factory) is not values.default_factory:
            raise CheckpointError(
                f"{self._named(path)} is a defaultdict of {values.default_factory!r}, which a checkpoint cannot keep; "
                f"use one of {', '.join(_FACTORIES)}."
            )
        return {"$defaultdict": [factory, self._pairs(values, path)]}

    def _set(self, values: Any, path: tuple[Any, ...]) -> list[Any]:
        """In the order of their texts: the order of a set differs from process to process, a checkpoint must not."""
        return sorted((self.encode(value, (*path, "element")) for value in values), key=lambda one: render(one, "an element"))

    def _tensor(self, value: Tensor, path: tuple[Any, ...]) -> Any:
        return {"$tensor": self._hold(value, path)}

    def _array(self, value: Any, path: tuple[Any, ...]) -> Any:
        if value.dtype.name not in _NUMPY or not value.dtype.isnative:
            raise CheckpointError(
                f"{self._named(path)} is an array of {value.dtype}, which a checkpoint cannot keep; use numbers."
            )
        return {"$array": self._hold(torch.from_numpy(np.array(value, order="C")), path)}

    def _hold(self, value: Tensor, path: tuple[Any, ...]) -> str:
        name = wanted = "/".join(map(str, path)) or "value"
        number = 1
        while name in self.tensors:  # two paths can read the same: {"a/b": …, "a": {"b": …}}
            number += 1
            name = f"{wanted}~{number}"
        self.tensors[name] = value
        return name

    def _named(self, path: tuple[Any, ...]) -> str:
        return self._what + "".join(f"[{part!r}]" for part in path)


_ENCODERS: dict[type, Callable[[Encoder, Any, tuple[Any, ...]], Any]] = {
    int: Encoder._number,
    float: Encoder._number,
    complex: lambda self, value, path: {"$complex": [self.encode(value.real, path), self.encode(value.imag, path)]},
    bytes: lambda self, value, path: {"$bytes": base64.b64encode(value).decode()},
    list: Encoder._items,
    tuple: lambda self, value, path: {"$tuple": self._items(value, path)},
    torch.Size: lambda self, value, path: {"$size": list(value)},
    dict: Encoder._dict,
    OrderedDict: Encoder._ordered,
    defaultdict: Encoder._defaultdict,
    Counter: lambda self, value, path: {"$counter": self._pairs(value, path)},
    set: lambda self, value, path: {"$set": self._set(value, path)},
    frozenset: lambda self, value, path: {"$frozenset": self._set(value, path)},
    deque: lambda self, value, path: {"$deque": [value.maxlen, self._items(value, path)]},
    GeneratorState: lambda self, value, path: {"$generator": self._items(value, path)},
    torch.dtype: lambda self, value, path: {"$dtype": str(value).removeprefix("torch.")},
    torch.device: lambda self, value, path: {"$device": str(value)},
    np.ndarray: Encoder._array,
    Tensor: Encoder._tensor,  # subclasses are found by isinstance, which takes ten times as long, and judged by the layout
}


class Decoder:
    """The value of tagged JSON; `tensors` are those that the encoder found."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = tensors

    def decode(self, value: Any, depth: int = 0) -> Any:
        if depth > LIMIT_DEPTH:
            raise CheckpointError("the state nests deeper than a checkpoint can hold")
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        if not any(key.startswith("$") for key in value):
            return {key: self.decode(item, depth + 1) for key, item in value.items()}
        if len(value) != 1:
            raise CheckpointError(f"an object with the keys {', '.join(value)[:80]} is no tagged value")
        tag, content = next(iter(value.items()))
        build = _DECODERS.get(tag)
        if build is None:
            raise CheckpointError(f"the tag {tag[:80]!r} is not known; was it written by a newer Instep?")
        try:
            return build(self, content, depth + 1)
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError, RuntimeError) as error:
            raise CheckpointError(f"the tag {tag} holds what it cannot: {str(error)[:200]}") from None

    def _list(self, content: Any, depth: int) -> list[Any]:
        return [self.decode(item, depth) for item in _list_of(content)]

    def _pairs(self, content: Any, depth: int) -> list[tuple[Any, Any]]:
        pairs = [(self.decode(key, depth), self.decode(value, depth)) for key, value in _list_of(content)]
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key occurs twice")
        return pairs

    def _tensor(self, content: Any, depth: int) -> Tensor:
        return self._tensors[content]

    def _array(self, content: Any, depth: int) -> Any:
        array = self._tensors[content].numpy()
        if array.dtype.name not in _NUMPY:
            raise ValueError(f"an array of {array.dtype}")
        return array

    def _state_dict(self, content: Any, depth: int) -> Any:
        pairs, metadata = _list_of(content)
        ordered = OrderedDict(self._pairs(pairs, depth))
        ordered._metadata = OrderedDict(self._pairs(metadata, depth))  # type: ignore[attr-defined]  # as torch does
        return ordered


def _list_of(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise TypeError(f"a list was expected, not {str(content)[:80]}")
    return content


def _float(content: Any) -> float:
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]


def _complex(parts: list[Any]) -> complex:
    real, imaginary = parts
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError("two floats were expected")
    return complex(real, imaginary)


def _whole(content: Any) -> int:
    if not isinstance(content, str):
        raise TypeError("a hexadecimal text was expected")
    return int(content, 16)


def _size(content: Any) -> torch.Size:
    if not all(type(item) is int and -(2**63) <= item < 2**63 for item in _list_of(content)):
        raise TypeError("whole numbers of 64 bits were expected")
    return torch.Size(content)


def _numpy(content: Any) -> Any:
    name, text = _list_of(content)
    return np.frombuffer(base64.b64decode(text, validate=True), dtype=_NUMPY[name])[0]


def _generator(parts: list[Any]) -> GeneratorState:
    """Where a generator stood. The values are handed to a generator that the run has made itself; none is made here."""
    kind, content = parts
    if kind not in ("torch", "numpy", "python"):
        raise ValueError(f"a generator of {str(kind)[:80]}")
    return GeneratorState(kind, content)


def _deque(self: Decoder, content: Any, depth: int) -> Any:
    length, items = _list_of(content)
    return deque(self._list(items, depth), maxlen=length)


def _counter(pairs: list[tuple[Any, Any]]) -> Any:
    return Counter(dict(pairs))


def _defaultdict(self: Decoder, content: Any, depth: int) -> Any:
    factory, pairs = _list_of(content)
    return defaultdict(None if factory is None else _FACTORIES[factory], self._pairs(pairs, depth))


_DECODERS: dict[str, Callable[[Decoder, Any, int], Any]] = {
    "$int": lambda self, content, depth: _whole(content),
    "$float": lambda self, content, depth: _float(content),
    "$complex": lambda self, content, depth: _complex(self._list(content, depth)),
    "$bytes": lambda self, content, depth: base64.b64decode(content, validate=True),
    "$tuple": lambda self, content, depth: tuple(self._list(content, depth)),
    "$size": lambda self, content, depth: _size(content),
    "$dict": lambda self, content, depth: dict(self._pairs(content, depth)),
    "$ordered": lambda self, content, depth: OrderedDict(self._pairs(content, depth)),
    "$state_dict": Decoder._state_dict,
    "$defaultdict": _defaultdict,
    "$counter": lambda self, content, depth: _counter(self._pairs(content, depth)),
    "$set": lambda self, content, depth: set(self._list(content, depth)),
    "$frozenset": lambda self, content, depth: frozenset(self._list(content, depth)),
    "$deque": _deque,
    "$generator": lambda self, content, depth: _generator(self._list(content, depth)),
    "$numpy": lambda self, content, depth: _numpy(content),
    "$dtype": lambda self, content, depth: _DTYPES[content],
    "$device": lambda self, content, depth: torch.device(content),
    "$tensor": Decoder._tensor,
    "$array": Decoder._array,
}
