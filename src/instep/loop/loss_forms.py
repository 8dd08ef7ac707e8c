"""How a batch's output and target become the positional arguments of a loss: who brings which."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from instep.errors import DescriptionError, ObjectiveError
from instep.records import record_class
from instep.text import listed

Arguments = tuple[Any, ...]


@record_class
class Form:
    """Which positional arguments of a loss the output brings and which the target; none: that side is not looked at."""

    output: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.output) + len(self.target)

    @property
    def sides(self) -> tuple[bool, bool]:
        return bool(self.output), bool(self.target)

    def up_to(self, width: int) -> "Form":
        """The form without the arguments from position `width` on."""
        return Form(tuple(i for i in self.output if i < width), tuple(i for i in self.target if i < width))

    def placed(self, output: Any, target: Any) -> Arguments | None:
        """The arguments in the loss's order; None where output and target do not have this form."""
        left, right = parts(output, len(self.output)), parts(target, len(self.target))
        if left is None or right is None:
            return None
        by_position = dict(zip((*self.output, *self.target), (*left, *right), strict=True))
        return tuple(by_position[i] for i in range(len(by_position)))

    def in_words(self, names: tuple[str, ...]) -> str:
        sides = (("output", self.output), ("target", self.target))
        return " and ".join(f"{side}={wanted([names[i] for i in places])}" for side, places in sides if places)


PAIR = (Form(output=(0,), target=(1,)),)
TWO_AND_TARGET = (Form(output=(0, 1), target=(2,)),)
TRIPLET = (Form(output=(0, 1, 2), target=()),)
MEAN_AND_VARIANCE = (Form(output=(0, 2), target=(1,)),)
SEQUENCES = (Form(output=(0,), target=(1, 2, 3)), Form(output=(0, 2), target=(1, 3)))


def spreading(
    name: str, forms: tuple[Form, ...], names: tuple[str, ...], bound: Mapping[str, Any]
) -> Callable[[Any, Any], Arguments]:
    """The function (output, target) -> arguments of a loss in one of these forms, less what a partial binds."""
    inputs = names[: forms[0].width]
    free = tuple(i for i in inputs if i not in bound)
    left = tuple(form.up_to(len(free)) for form in forms)
    # What is bound must stand behind what is still passed by position, and leave each side something to bring.
    if free != inputs[: len(free)] or any(old.sides != new.sides for old, new in zip(forms, left, strict=True)):
        taken = " and ".join(repr(i) for i in inputs if i in bound)
        raise DescriptionError(
            f"this partial of {name} binds {taken}, so it cannot take {in_words(forms, names)}; "
            "write an objective that returns Loss(value, count)."
        )
    expected = f"{name} takes {in_words(left, names)}"
    return functools.partial(pair, expected) if left == PAIR else functools.partial(spread, expected, left)


def pair(expected: str, output: Any, target: Any) -> Arguments:
    """The usual case, which every micro-batch goes through."""
    if isinstance(output, Tensor) and isinstance(target, Tensor):
        return output, target
    raise misshapen(expected, output, target)


def spread(expected: str, forms: tuple[Form, ...], output: Any, target: Any) -> Arguments:
    """The arguments by the first form that output and target have."""
    for form in forms:
        arguments = form.placed(output, target)
        if arguments is not None:
            return arguments
    raise misshapen(expected, output, target)


def parts(side: Any, number: int) -> Arguments | None:
    """A side as `number` arguments: one is a tensor by itself, several are a tuple or list."""
    if number == 0:
        return ()
    if number == 1:
        return (side,) if isinstance(side, Tensor) else None
    return tuple(side) if isinstance(side, tuple | list) and len(side) == number else None


def misshapen(expected: str, output: Any, target: Any) -> ObjectiveError:
    if isinstance(target, list | tuple) and target and isinstance(target[0], str):
        words = listed(dict.fromkeys(map(repr, target)), most=3)
        return ObjectiveError(
            f"{expected}; the target is a list of words ({words}). Losses compare numbers: give each word a number in the data, "
            "like names.index(word) for a sorted list of all names."
        )
    return ObjectiveError(f"{expected}; got output={seen(output)} and target={seen(target)}.")


def in_words(forms: tuple[Form, ...], names: tuple[str, ...]) -> str:
    return ", or ".join(form.in_words(names) for form in forms)


def wanted(names: list[str]) -> str:
    return f"a tensor ({names[0]})" if len(names) == 1 else f"({', '.join(names)})"


def seen(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(seen(item) for item in value)})"
    return "None" if value is None else type(value).__name__
