"""Difference: what does not fit between the weights of a model and those of a file, as data and as a table for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from instep.checkpoint.dtypes import name_of

Kind = Literal["missing", "unexpected", "shape", "dtype", "tied"]
SHOWN = 30
# What batch norm counts its batches in, since torch 0.4.1. Weights that are older have none, and torch takes them all the same.
COUNTER = "num_batches_tracked"


@dataclass(frozen=True)
class Mismatch:
    """One name that does not fit: what the model has there and what the file has, in words; "-" for nothing."""

    kind: Kind
    name: str
    model: str
    file: str


@dataclass(frozen=True)
class Difference:
    """All that does not fit, and how much does. True where something does not.

    `missing` names are in the model only, `unexpected` ones in the file only. A `dtype` differs where the model's could not hold
    the file's values; bfloat16 into float32 is none. `tied` is one tensor in the model and two different ones in the file.
    `repaired` names had prefixes of wrappers (`module.`, `_orig_mod.`) that were left out or put in. `loaded` is how many
    tensors the model got.
    """

    mismatches: tuple[Mismatch, ...] = ()
    repaired: int = 0
    loaded: int = field(default=0, compare=False)

    def __bool__(self) -> bool:
        return bool(self.mismatches)

    def names(self, kind: Kind) -> list[str]:
        """The names that do not fit in this way."""
        return [mismatch.name for mismatch in self.mismatches if mismatch.kind == kind]

    @property
    def missing(self) -> list[str]:
        return self.names("missing")

    @property
    def unexpected(self) -> list[str]:
        return self.names("unexpected")

    def __repr__(self) -> str:
        """What Python and a notebook show of what `load_model` returns."""
        return f"<{self}>" if not self.mismatches else f"<{self.loaded:,} loaded, {len(self.mismatches):,} did not fit:\n{self}>"

    def __str__(self) -> str:
        from instep.text import clean, columns

        if not self.mismatches:
            return (
                f"all {self.loaded:,} tensors fit and were loaded" if self.loaded != 1 else "the one tensor fits and was loaded"
            )
        rows = [(mismatch.kind, clean(mismatch.name), mismatch.model, mismatch.file) for mismatch in self.mismatches[:SHOWN]]
        lines = columns(("", "name", "model", "file"), rows, left=("", "name", "model", "file"))
        more = len(self.mismatches) - SHOWN
        return "\n".join([*lines, f"and {more:,} more"] if more > 0 else lines)


def compare(model: Mapping[str, Any], file: Mapping[str, Any], unmatched: Mapping[str, Any]) -> Iterator[Mismatch]:
    """What does not fit: `model` and `file` by the names of the model, `unmatched` is what else the file has, by its own."""
    aliases = _aliases(model)
    uncounted = not any(name.endswith(COUNTER) for name in file)
    for name, ours in model.items():
        if name not in file:
            if not any(alias in file for alias in aliases.get(id(ours), ())) and not (uncounted and name.endswith(COUNTER)):
                yield Mismatch("missing", name, form(ours), "-")
            continue
        theirs = file[name]
        if not _same_shape(ours, theirs):
            yield Mismatch("shape", name, form(ours), form(theirs))
        elif isinstance(theirs, Tensor) and not _holds(ours.dtype, theirs.dtype):
            yield Mismatch("dtype", name, form(ours), form(theirs))
    yield from _untied(aliases, file)
    for name, theirs in unmatched.items():
        yield Mismatch("unexpected", name, "-", form(theirs))


def form(value: Any) -> str:
    """`float32 (3, 4)`, or the type of what is no tensor."""
    if is_lazy(value):
        return "not yet known"
    return f"{name_of(value.dtype)} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def _same_shape(ours: Any, theirs: Any) -> bool:
    if not isinstance(ours, Tensor) or not isinstance(theirs, Tensor):
        return isinstance(ours, Tensor) == isinstance(theirs, Tensor)
    return is_lazy(ours) or ours.shape == theirs.shape


def _holds(ours: torch.dtype, theirs: torch.dtype) -> bool:
    """Whether every value of the file's dtype is one of the model's: the same kind of number, as wide and as fine."""
    if ours == theirs:
        return True
    if torch.bool in (ours, theirs) or (ours.is_floating_point, ours.is_complex) != (theirs.is_floating_point, theirs.is_complex):
        return False
    if not ours.is_floating_point and not ours.is_complex:
        whole, other = torch.iinfo(ours), torch.iinfo(theirs)
        return whole.min <= other.min and other.max <= whole.max
    real, its = torch.finfo(ours), torch.finfo(theirs)
    return real.max >= its.max and real.eps <= its.eps and real.smallest_normal <= its.smallest_normal


def _aliases(model: Mapping[str, Any]) -> dict[int, list[str]]:
    """The names of each tensor that has several: a file may hold it under any one of them."""
    names: dict[int, list[str]] = {}
    for name, value in model.items():
        if isinstance(value, Tensor):
            names.setdefault(id(value), []).append(name)
    return {key: several for key, several in names.items() if len(several) > 1}


def _untied(aliases: Mapping[int, list[str]], file: Mapping[str, Any]) -> Iterator[Mismatch]:
    for several in aliases.values():
        first, *others = [name for name in several if isinstance(file.get(name), Tensor)] or [""]
        for name in others:
            one, other = file[first], file[name]
            if one is not other and one.shape == other.shape and not torch.equal(one, other):
                yield Mismatch("tied", name, f"is {first}", f"differs from {first}")
