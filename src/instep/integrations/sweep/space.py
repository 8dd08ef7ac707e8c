"""The search space: which values of build's parameters to try, as people write it, checked against the types of the parameters.

`log:1e-4..1e-1` is a range by its logarithm, `8..64..8` one in steps, `8,16,32` are choices; a list in Python is choices as well.
"""

import enum
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Union, get_args, get_origin

from instep.errors import DescriptionError
from instep.text import listed, nearest

EXAMPLES = "lr=log:1e-4..1e-1 for a range, width=8,16,32 for choices"
Plain = bool | int | float | str | None  # what a storage can hold


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`, both included; by their logarithms, or in steps, where that is asked for."""

    low: float
    high: float
    log: bool = False
    step: float | None = None
    is_whole: bool = False

    def __str__(self) -> str:
        step = "" if self.step is None else f"..{self.step:g}"
        return f"{'log:' if self.log else ''}{self.low!r}..{self.high!r}{step}"

    @property
    def first(self) -> Plain:
        return self.low

    def value_of(self, stored: Any) -> Any:
        return stored


@dataclass(frozen=True)
class Choices:
    """Values to choose from. What a storage cannot hold, such as the member of an enum, is stored by its name."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        return ",".join(map(str, self.stored))

    @property
    def stored(self) -> tuple[Plain, ...]:
        return tuple(as_plain(value) for value in self.values)

    @property
    def first(self) -> Plain:
        return self.stored[0]

    def value_of(self, stored: Any) -> Any:
        return self.values[self.stored.index(stored)]


Parameter = Range | Choices


@dataclass(frozen=True)
class Space:
    """What is searched, and what all trials have in common."""

    parameters: Mapping[str, Parameter]
    fixed: Mapping[str, Any]

    def values_of(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """What build is called with, from what the storage holds."""
        return {**self.fixed, **{name: self.parameters[name].value_of(value) for name, value in stored.items()}}


def read_space(build: Callable[..., Any], asked: Mapping[str, Any], fixed: Mapping[str, Any], *, where: str = "build()") -> Space:
    """The space that was asked for; raises where a name, a type or a number cannot be. Defaults of build become fixed values."""
    found = inspect.signature(build).parameters
    if any(p.kind is p.POSITIONAL_ONLY for p in found.values()):
        raise DescriptionError(f"{where} has parameters without a name; a sweep calls it with names.")
    takes_any = any(p.kind is p.VAR_KEYWORD for p in found.values())
    names = [name for name, p in found.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for name in [*asked, *fixed]:
        if name not in names and not takes_any:
            raise DescriptionError(_explain_unknown(name, names, where))
    both = sorted(asked.keys() & fixed.keys())
    if both:
        raise DescriptionError(f"{both[0]} is searched and has the one value {fixed[both[0]]!r} as well; leave one out.")
    types_of = _types(build, where)
    parameters = {name: read_parameter(name, one, types_of.get(name, Any), where) for name, one in asked.items()}
    if not parameters:
        raise DescriptionError(f"there is nothing to search; say what to try: {EXAMPLES}.")
    given = {name: found[name].default for name in names if found[name].default is not inspect.Parameter.empty} | dict(fixed)
    missing = [name for name in names if name not in given and name not in parameters]
    if missing:
        raise DescriptionError(f"{where} needs {listed(missing)}, with no default and not searched; give a value or a range.")
    return Space(parameters, {name: value for name, value in given.items() if name not in parameters})


def read_parameter(name: str, asked: Any, kind: Any, where: str) -> Parameter:
    """One parameter, from a text or a sequence of values."""
    if isinstance(asked, Range | Choices):
        return asked
    if isinstance(asked, str):
        text = asked.strip()
        if ".." in text:
            return _range(name, text, kind, where)
        return _choices(name, [_typed(name, one.strip(), kind, where) for one in text.split(",")] if text else [])
    if isinstance(asked, Sequence) and not isinstance(asked, bytes):
        return _choices(name, list(asked))
    raise DescriptionError(f"{name}={asked!r} is no space to search; use {EXAMPLES}, or a list of values.")


def as_plain(value: Any) -> Plain:
    """The value as a storage holds it."""
    if isinstance(value, enum.Enum):
        return value.name
    return str(value) if isinstance(value, Path) else value


def _range(name: str, text: str, kind: Any, where: str) -> Range:
    is_log = text.startswith("log:")
    parts = text.removeprefix("log:").split("..")
    kinds = _members(kind)
    if kind is not Any and not {int, float} & set(kinds):
        raise DescriptionError(f"{name} of {where} is {_said(kind)}, which has no range; list its values: {name}=a,b,c.")
    is_whole = int in kinds and float not in kinds
    numbers = [_number(name, part, is_whole=is_whole) for part in parts]
    if not 2 <= len(parts) <= 3:
        raise DescriptionError(f"{name}={text} has {len(parts)} ends; use low..high or low..high..step.")
    low, high = numbers[0], numbers[1]
    step = numbers[2] if len(numbers) == 3 else None
    if not low < high:
        raise DescriptionError(f"{name}={text} does not go up; write the smaller number first.")
    if is_log and low <= 0:
        raise DescriptionError(f"{name}={text} goes by the logarithm, which {low:g} does not have; begin above 0.")
    if step is not None and (is_log or not 0 < step <= high - low):
        why = "a range by the logarithm has no steps" if is_log else f"steps of {step:g} do not fit between {low:g} and {high:g}"
        raise DescriptionError(f"{name}={text} cannot be searched: {why}.")
    return Range(low, high, is_log, step, is_whole)


def _number(name: str, text: str, *, is_whole: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        raise DescriptionError(f"{name}: {text!r} is no number; a range is written like {name}=log:1e-4..1e-1.") from None
    if not math.isfinite(value):
        raise DescriptionError(f"{name}: a range needs finite ends, and {text.strip()} is none.")
    if is_whole and value != int(value):
        raise DescriptionError(f"{name} takes whole numbers, and {text.strip()} is none.")
    return int(value) if is_whole else value


def _choices(name: str, values: Sequence[Any]) -> Choices:
    if not values:
        raise DescriptionError(f"{name}= says nothing to try; use {EXAMPLES}.")
    for value in values:
        if not isinstance(as_plain(value), bool | int | float | str | None):
            raise DescriptionError(
                f"{name}: a choice is a number, a text, True, False or None, and {value!r} is a {type(value).__name__}; "
                "give it a name, and look that up in build()."
            )
    choices = Choices(tuple(values))
    twice = [value for place, value in enumerate(choices.stored) if value in choices.stored[:place]]
    if twice:
        raise DescriptionError(f"{name} has the choice {twice[0]!r} twice.")
    return choices


def _typed(name: str, text: str, kind: Any, where: str) -> Any:
    """A word of the command line as the parameter's type has it."""
    for one in _members(kind):
        found = _as_member(text, one)
        if found is not _NO_VALUE:
            return found
    if kind is Any:
        return next(value for one in (int, float, str) if (value := _as_member(text, one)) is not _NO_VALUE)
    raise DescriptionError(f"{name} of {where} is {_said(kind)}, and {text!r} is not.")


_NO_VALUE = object()
_WORDS = {"true": True, "false": False}


def _as_member(text: str, kind: Any) -> Any:
    """The text as this type, where it is one."""
    if kind is bool:
        return _WORDS.get(text.lower(), _NO_VALUE)
    if kind is type(None):
        return None if text.lower() == "none" else _NO_VALUE
    if kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            return _NO_VALUE
        return value if math.isfinite(value) else _NO_VALUE
    if kind in (str, Path):
        return kind(text)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind.__members__.get(text, _NO_VALUE)
    if isinstance(kind, _Value):
        return kind.value if str(as_plain(kind.value)) == text else _NO_VALUE
    return _NO_VALUE


@dataclass(frozen=True)
class _Value:
    """One value of a Literal."""

    value: Any


def _members(kind: Any) -> list[Any]:
    """The types that a value may have; text last, since every word is one."""
    if get_origin(kind) is typing.Annotated:
        return _members(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return sorted((one for member in get_args(kind) for one in _members(member)), key=lambda one: one in (str, Path))
    if get_origin(kind) is Literal:
        return [_Value(value) for value in get_args(kind)]
    return [kind]


def _types(build: Callable[..., Any], where: str) -> dict[str, Any]:
    """The annotations of build's parameters, with those that are text looked up where build was written."""
    parameters = inspect.signature(build).parameters
    annotated = {name: p.annotation for name, p in parameters.items() if p.annotation is not p.empty}
    try:
        names = getattr(inspect.unwrap(build), "__globals__", {})
        return typing.get_type_hints(SimpleNamespace(__annotations__=annotated), names)
    except NameError as error:
        raise DescriptionError(f"{where} has a type that cannot be found: {error}.") from None


def _said(kind: Any) -> str:
    members = [repr(one.value) if isinstance(one, _Value) else getattr(one, "__name__", str(one)) for one in _members(kind)]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"one of {listed(kind.__members__)}"
    if all(isinstance(one, _Value) for one in _members(kind)):
        return f"one of {listed(members)}"
    return " or ".join("None" if one == "NoneType" else one for one in members)


def _explain_unknown(name: str, names: Sequence[str], where: str) -> str:
    close = nearest(name, names)
    hint = f"did you mean {close}? " if close else ""
    return f"{where} has no parameter {name!r}; {hint}It has {listed(names) or 'none'}."
