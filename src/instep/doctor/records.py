"""Records and parts of the trace: dataclasses that are quick to define, for every watched script waits for a hundred of them.

`dataclass` writes and compiles each method that it adds. A record gets `__init__` alone: two of them are equal only where they
are the same. A part is made once and without arguments: nothing is compiled for it.
"""

from dataclasses import MISSING, Field, dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def record_class(kind: type[T]) -> type[T]:
    """A dataclass with slots, compared by identity."""
    return dataclass(slots=True, eq=False, repr=False, match_args=False)(kind)


@dataclass_transform(eq_default=False, field_specifiers=(field,))
def part_class(kind: type[T]) -> type[T]:
    """A class whose fields all have defaults, which is called without arguments."""
    fields = [(name, _default(kind, name)) for name in kind.__annotations__]

    def fill(self: Any) -> None:
        for name, (value, factory) in fields:
            setattr(self, name, value if factory is None else factory())

    made: Any = kind
    made.__init__ = fill
    return kind


def _default(kind: type, name: str) -> tuple[Any, Any]:
    """The default of a field, or what makes it."""
    default = vars(kind).get(name, MISSING)
    if default is MISSING:
        raise TypeError(f"{name!r} of {kind.__name__} needs a default")
    if not isinstance(default, Field):
        return default, None
    delattr(kind, name)
    return default.default, None if default.default_factory is MISSING else default.default_factory
