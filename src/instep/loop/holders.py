"""Holders: whatever of a run holds parameters, buffers, modes or attributes of its own. Found once, when a run is assembled.

A user passes a model and an optimizer; a loss, an objective, a metric or a transform may be a module too, or hold modules: as a
method of one, as the argument of a `partial`, in a closure, in an attribute, or under a global name that a function reads. One
list serves capturing and restoring, the modes of an evaluation, tuning, and checkpoints.
"""

import functools
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from instep.errors import is_user_file
from instep.records import record_class

_DEEPEST = 4  # objects within objects
_MOST = 1_000  # entries of a list that are looked at for modules
_OF_MODULES = frozenset(vars(nn.Module()))
_CALLABLES = (functools.partial, types.MethodType, types.FunctionType)


@record_class
class Holders:
    """All of them; modules that are inside of the model are the model's."""

    model: nn.Module
    given: tuple[nn.Module, ...]  # losses and objectives that are modules themselves: checkpoints keep all their tensors
    beside: tuple[nn.Module, ...]  # every other module that is called with the model, those in `given` among them
    roots: Mapping[str, Any]  # what was passed, by the name of its argument: where attributes are looked for

    @property
    def modules(self) -> tuple[nn.Module, ...]:
        return (self.model, *self.beside)

    @property
    def objects(self) -> tuple[Any, ...]:
        """What of the roots is no module: functions, and objects with attributes of their own."""
        return tuple(part for root in self.roots.values() for part in opened(root) if not isinstance(part, nn.Module))


def find_holders(model: nn.Module, *, loss: Any, objective: Any, metrics: Any, transform: Any) -> Holders:
    """The holders of a run, from what was passed to the Trainer."""
    objectives = objective.items() if isinstance(objective, Mapping) else [("", objective)]
    passed = {"loss": loss, **{f"objective {name}".strip(): one for name, one in objectives}, "transform": transform}
    roots = {name: root for name, root in passed.items() if root is not None}
    own = set(model.modules())
    held = [module for root in (*roots.values(), *_functions(metrics)) for module in _modules_in(root)]
    return Holders(
        model,
        given=tuple(root for name, root in roots.items() if isinstance(root, nn.Module) and name != "transform"),
        beside=tuple(_outermost(module for module in held if module not in own)),
        roots={"model": model, **roots},
    )


def opened(root: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """What a callable is made of: the object of a method, the parts of a partial, the cells and globals of a function."""
    seen = set() if seen is None else seen
    if id(root) in seen:  # a function that calls itself is in its own closure
        return
    seen.add(id(root))
    if isinstance(root, functools.partial):
        for part in (root.func, *root.args, *root.keywords.values()):
            yield from opened(part, seen)
    elif isinstance(root, types.MethodType):
        yield from opened(root.__self__, seen)
        yield from opened(root.__func__, seen)
    elif isinstance(root, types.FunctionType):
        if is_users(root):
            yield from (Closure(root), Globals(root)) if root.__closure__ else (Globals(root),)
            for held in Closure(root).items().values():  # what a decorator wraps
                yield from opened(held, seen) if isinstance(held, _CALLABLES) else ()
    elif isinstance(root, nn.Module) or has_attributes(root):
        yield root


class Names:
    """Something that holds values by name: here, those in a dictionary."""

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held

    def items(self) -> dict[str, Any]:
        return self._held

    def put(self, name: str, value: Any) -> None:
        self._held[name] = value

    def remove(self, name: str) -> None:
        del self._held[name]


class ModuleNames(Names):
    """The attributes of a module, but for those that torch keeps in every module."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(vars(module))

    def items(self) -> dict[str, Any]:
        return {name: value for name, value in self._held.items() if name not in _OF_MODULES}


class Closure(Names):
    """What a function holds in its closure, by name."""

    def __init__(self, function: types.FunctionType) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def items(self) -> dict[str, Any]:
        return {name: value for name, cell in self._cells.items() for value in _contents(cell)}

    def put(self, name: str, value: Any) -> None:
        self._cells[name].cell_contents = value

    def remove(self, name: str) -> None:
        del self._cells[name].cell_contents


class Globals(Names):
    """The global names that a function uses, but for those of modules, classes and functions."""

    def __init__(self, function: types.FunctionType) -> None:
        super().__init__(function.__globals__)
        self._names = dict.fromkeys(name for code in _codes(function.__code__) for name in code.co_names)

    def items(self) -> dict[str, Any]:
        return {name: self._held[name] for name in self._names if name in self._held and not _is_code(self._held[name])}


def has_attributes(thing: Any) -> bool:
    """Whether it is an object of a class that a user wrote: what other packages keep in theirs is their own business."""
    return hasattr(thing, "__dict__") and not _is_code(thing) and not isinstance(thing, Optimizer) and is_users(type(thing))


def is_users(thing: type | types.FunctionType) -> bool:
    """Whether a class or a function stands in a user's file."""
    if thing.__module__ == "__main__":
        return True
    if isinstance(thing, types.FunctionType):
        return is_user_file(thing.__code__.co_filename)
    file = getattr(sys.modules.get(thing.__module__), "__file__", None)
    return file is not None and is_user_file(file)


def _is_code(thing: Any) -> bool:
    return isinstance(thing, type | types.ModuleType | types.BuiltinFunctionType) or inspect.isfunction(thing)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code, and that of the functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _functions(metrics: Any) -> Iterable[Any]:
    """The metrics that are callables of a user's own; those with a `reset`, as torchmetrics has, begin anew by themselves."""
    several = metrics.values() if isinstance(metrics, Mapping) else metrics if isinstance(metrics, list | tuple) else [metrics]
    return [metric for metric in several if callable(metric) and not hasattr(metric, "reset")]


def _modules_in(thing: Any, depth: int = 0) -> Iterator[nn.Module]:
    if isinstance(thing, nn.Module):
        yield thing
    elif depth < _DEEPEST:
        for inner in _inside(thing):
            yield from _modules_in(inner, depth + 1)


def _inside(thing: Any) -> Iterator[Any]:
    """What a thing holds directly."""
    if isinstance(thing, Names):
        yield from thing.items().values()
    elif isinstance(thing, list | tuple | set | dict):
        if len(thing) <= _MOST:
            yield from thing.values() if isinstance(thing, dict) else thing
    elif isinstance(thing, _CALLABLES):
        yield from opened(thing)
    elif has_attributes(thing):
        yield from vars(thing).values()


def _contents(cell: types.CellType) -> list[Any]:
    """What a cell holds: one thing, or nothing yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def _outermost(modules: Iterable[nn.Module]) -> Iterator[nn.Module]:
    """Each module once, and not those that are inside of another one."""
    found = list(dict.fromkeys(modules))
    within = {inner for module in found for inner in module.modules() if inner is not module}
    return (module for module in found if module not in within)
