"""Code: the functions and classes that the user wrote, by a hash of each, and the plain values that they read.

A function is hashed by its instructions, as Python compiled them: what runs, whatever has become of its file, also for lambdas,
cells of a notebook and what `exec` made. Names of lines and files, comments and docstrings are not in it. Another version of
Python compiles otherwise, so hashes count under the same version only.

Followed from a function: the functions and classes it names, their own in turn, closures, defaults, decorators, partials; of a
class all methods. Values: globals, entries of global dictionaries, attributes of global objects, where the code names them.
"""

import dis
import functools
import hashlib
import platform
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor, nn

from instep.distributed.dtensors import class_of
from instep.run.module_texts import TORCHS, buffer_values, describe_modules
from instep.run.plain import UNKNOWN, plain
from instep.run.written import is_own_class, is_own_code, is_own_module

DEPTH = 6  # of objects in objects
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# What Python writes into a class by itself.
_PYTHONS = frozenset({"__module__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__qualname__", "__firstlineno__"})


class Read(NamedTuple):
    """What one function says: its hash, and what its instructions name."""

    hash: str
    globals: frozenset[str]
    attributes: frozenset[str]
    constants: frozenset[str]  # words, such as the keys of a dictionary


def describe_code(owners: Mapping[str, Any], model: nn.Module) -> dict[str, Any]:
    """The code of each owner (the model, the objective, a transform); one that says nothing of its own is left out."""
    parts = {name: part for name, owner in owners.items() if (part := _part(owner, model)) is not None}
    return {"python": f"{platform.python_version()}{'-O' * sys.flags.optimize}", "parts": parts}


def _part(owner: Any, model: nn.Module) -> dict[str, Any] | None:
    found = Walk(model)
    try:
        found.visit(owner)
    except Exception:  # of somebody's __getattr__: what cannot be looked at must not stop a run, and is not compared
        return None
    values = found.all_values()
    if not found.functions and not values:
        return None
    return {"functions": dict(sorted(found.functions.items())), "values": dict(sorted(values.items()))}


class DataSet(NamedTuple):
    """A data set as an owner of code: the values it holds are data, which has a fingerprint."""

    held: Any


class Walk:
    """What is found from one owner on."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model  # whose modules are told apart from its code
        self.functions: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        self._of_classes: dict[str, tuple[str, Any]] = {}  # values of classes: counted where some code names them
        self._attributes: set[str] = set()
        self._seen: dict[int, Any] = {}  # kept alive, so that no other gets its identity
        self._holds_data = False

    def all_values(self) -> dict[str, Any]:
        named = {name: value for name, (short, value) in self._of_classes.items() if short in self._attributes}
        return {**named, **self._values}

    def visit(self, value: Any, name: str = "", depth: int = 0) -> None:
        """Take in what a value says, where it is called `name`."""
        if id(value) in self._seen or depth > DEPTH:
            return
        if isinstance(value, DataSet):
            self._holds_data = True
            value = value.held
        kept = UNKNOWN if self._holds_data and not depth else plain(value, name.rpartition(".")[2])
        if kept is not UNKNOWN:
            if name:
                _put(self._values, name, kept)
            return
        self._seen[id(value)] = value
        if isinstance(value, functools.partial):
            self._partial(value, name, depth)
        elif isinstance(value, MethodType):
            self.visit(value.__func__, name, depth + 1)
            if isinstance(value.__self__, nn.Module) or is_own_class(type(value.__self__)):
                self.visit(value.__self__, name, depth + 1)
        elif isinstance(value, FunctionType):
            self._function(value, depth)
        elif isinstance(value, type):
            self._class(value, depth)
        elif isinstance(value, nn.Module):
            self._module(value, name, depth)
        elif isinstance(value, Mapping | list | tuple):
            self._entries(value, name, depth)
        elif not isinstance(value, ModuleType | BuiltinFunctionType):
            self._object(value, name, depth)

    def _partial(self, value: Any, name: str, depth: int) -> None:
        self.visit(value.func, name, depth + 1)
        for key, inner in (*enumerate(value.args), *value.keywords.items()):
            self.visit(inner, f"{name or _name(value.func)}({key})", depth + 1)

    def _function(self, function: FunctionType, depth: int) -> None:
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.visit(wrapped, "", depth + 1)
        if not is_own_code(function.__code__):
            for cell in function.__closure__ or ():  # a decorator of somebody else's holds a function of the user's
                if _is_function(held := _held(cell)):
                    self.visit(held, "", depth + 1)
            return
        found = read_code(function.__code__)
        _put(self.functions, function.__qualname__, found.hash)
        self._attributes |= found.attributes
        self._closure(function, depth)
        for name in sorted(found.globals & function.__globals__.keys()):
            self._named(function.__globals__[name], name, found, depth + 1)
        for name, value in _defaults(function):
            self.visit(value, f"{function.__qualname__}({name})", depth + 1)

    def _closure(self, function: FunctionType, depth: int) -> None:
        found = read_code(function.__code__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self._named(_held(cell), name, found, depth + 1)

    def _named(self, value: Any, name: str, by: Read, depth: int) -> None:
        """A value that code names: of a module, an object or a dictionary what the code names of it in turn."""
        if isinstance(value, ModuleType):
            if is_own_module(value.__name__):
                for key in sorted(by.attributes & vars(value).keys()):
                    self._named(vars(value)[key], f"{name}.{key}", by, depth + 1)
        elif isinstance(value, dict):
            for key in sorted(by.constants & {key for key in value if isinstance(key, str)}):
                self.visit(value[key], f"{name}[{key!r}]", depth)
        elif plain(value) is not UNKNOWN or isinstance(value, list | tuple | type | nn.Module) or _is_function(value):
            self.visit(value, name, depth)
        elif callable(value):
            if is_own_class(type(value)) or hasattr(
                value, "__wrapped__"
            ):  # what others keep in theirs may change from one process to the next
                self.visit(value, name, depth)
        elif depth <= DEPTH:
            held = getattr(value, "__dict__", {})
            for key in sorted(by.attributes & held.keys()):
                self.visit(held[key], f"{name}.{key}", depth + 1)

    def _class(self, kind: type, depth: int) -> None:
        for one in kind.__mro__:
            if not is_own_class(one):
                continue
            for name, held in vars(one).items():
                if name in _PYTHONS or name.startswith("__dataclass"):
                    continue
                functions = list(_functions_in(held))
                for function in functions:
                    self.visit(function, "", depth + 1)
                if not functions and (value := plain(held, name)) is not UNKNOWN:
                    self._of_classes[f"{one.__qualname__}.{name}"] = (name, value)

    def _module(self, module: nn.Module, name: str, depth: int) -> None:
        """The classes of a module and of those in it, its hooks, and the functions that it holds; of a loss its numbers too.

        A checkpoint restores the buffers of a loss: new class weights would not count.
        """
        if module is not self._model:
            called, described = name or class_of(module).__name__, describe_modules(module)
            values = described.values | (buffer_values(module) if not depth else {})
            self._values |= {f"{called}.{inner}" if inner else called: text for inner, text in described.texts.items()}
            self._values |= {f"{called}.{inner}": value for inner, value in values.items()}
        for inner in module.modules():
            self.visit(class_of(inner), "", depth + 1)
            hooks = [hook for kind in _HOOKS for hook in getattr(inner, kind, {}).values() if _is_own_hook(hook)]
            own = [value for key, value in vars(inner).items() if key not in TORCHS and _is_function(value)]
            for value in (*hooks, *own):
                self.visit(value, "", depth + 1)

    def _entries(self, value: Any, name: str, depth: int) -> None:
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        if len(value) <= 64:
            for key, inner in list(pairs):
                self.visit(inner, f"{name}.{key}" if name else str(key), depth + 1)

    def _object(self, value: Any, name: str, depth: int) -> None:
        """An object that is called, or a data set: its class, and what it holds; of other people's only what is public."""
        own = is_own_class(type(value))
        self.visit(type(value), "", depth + 1)
        for key, held in sorted(getattr(value, "__dict__", {}).items()):
            if (own or not key.startswith("_") or key == "__wrapped__") and (not self._holds_data or _holds_code(held)):
                self.visit(held, f"{name}.{key}" if name else key, depth + 1)


@functools.lru_cache(maxsize=4096)
def read_code(code: CodeType) -> Read:
    """The hash of a function's instructions, and what they name."""
    made = hashlib.blake2b(digest_size=8)
    names: dict[str, set[str]] = {"global": set(), "attribute": set(), "constant": set()}
    made.update(repr((code.co_argcount, code.co_kwonlyargcount, code.co_flags)).encode() + code.co_exceptiontable)
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        if isinstance(value, CodeType):
            inner = read_code(value)
            names["global"] |= inner.globals
            names["attribute"] |= inner.attributes
            names["constant"] |= inner.constants
            value = inner.hash
        elif instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names["global"].add(value)
        elif instruction.opname.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            names["attribute"].add(value)
        elif isinstance(value, str) and instruction.opname.startswith("LOAD_CONST"):
            names["constant"].add(value)
        made.update(f"{instruction.opname} {_constant(value)}\n".encode())
    return Read(made.hexdigest(), *(frozenset(found) for found in names.values()))


def _constant(value: Any) -> str:
    """A constant as text; the order in a set depends on the process."""
    if isinstance(value, frozenset):
        return str(sorted(map(repr, value)))
    return f"({', '.join(map(_constant, value))})" if isinstance(value, tuple) else repr(value)


def _functions_in(held: Any) -> Iterator[Any]:
    """The functions of an entry of a class."""
    if isinstance(held, staticmethod | classmethod):
        yield held.__func__
    elif isinstance(held, property):
        yield from filter(None, (held.fget, held.fset))
    elif isinstance(held, functools.cached_property):
        yield held.func
    elif isinstance(held, FunctionType):
        yield held


def _defaults(function: FunctionType) -> Iterator[tuple[str, Any]]:
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    yield from zip(names[len(names) - len(given) :], given, strict=True)
    yield from (function.__kwdefaults__ or {}).items()


def _put(found: dict[str, Any], name: str, value: Any) -> None:
    """Two of one name, as lambdas have it, are told apart by a number."""
    free, number = name, 1
    while free in found and found[free] != value:
        number += 1
        free = f"{name} {number}"
    found[free] = value


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return UNKNOWN


def _holds_code(value: Any) -> bool:
    """Whether what a data set holds may do something: a transform, another data set, a list of them."""
    if isinstance(value, list | tuple) and 0 < len(value) <= 64:
        value = value[0]
    is_data_set = hasattr(value, "__getitem__") and not isinstance(
        value, Tensor | np.ndarray | Mapping | str | bytes | list | tuple
    )
    return callable(value) or is_data_set or is_own_class(type(value))


def _is_own_hook(hook: Any) -> bool:
    """Sharding and others hang hooks of theirs on a model, which say nothing of it."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    hook = getattr(hook, "__func__", hook)
    return is_own_code(hook.__code__) if isinstance(hook, FunctionType) else is_own_class(type(hook))


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType | MethodType | functools.partial)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
