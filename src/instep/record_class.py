"""record_class: a frozen dataclass that is quick to define, for the records that every start of a Trainer defines.

`dataclass(frozen=True)` writes and compiles six methods for each class, which takes four times as long as all else that defines
it. Here only `__init__` is compiled, and the methods of values are shared. Type checkers forbid to change a field; nothing does
at run time, so records that users get in their hands are frozen dataclasses all the same.
"""

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record_class(kind: type[T]) -> type[T]:
    """A dataclass whose instances are values: equal where all fields are, with a hash, shown with their fields.

    >>> @record_class
    ... class Place:
    ...     epoch: int
    ...     batch: int = 0
    >>> Place(2), Place(2) == Place(2, 0), Place(2) == Place(3)
    (Place(epoch=2, batch=0), True, False)
    """
    made: Any = dataclass(eq=False, repr=False)(kind)
    for name, method in (("__eq__", _is_equal), ("__hash__", _hash), ("__repr__", _show)):
        if name not in vars(kind) or vars(kind)[name] is None:
            setattr(made, name, method)
    return kind


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, one.name) for one in fields(record))


def _is_equal(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _show(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in fields(self))})"
