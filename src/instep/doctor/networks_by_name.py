"""Networks by name: what the user's names stand for, in functions, modules, dictionaries and objects."""

import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from instep.doctor.scopes import local_names
from instep.doctor.sites import Locator

LIMIT = 512


class Bindings:
    """Notes names that stand for one network after the other, as that of a loop over them: they tell nothing of either."""

    def __init__(self, loose: set[str]) -> None:
        self._loose = loose  # is filled with these names, "function:name"
        self._first: dict[str, weakref.ref[nn.Module]] = {}

    def note(self, place: str, names: dict[str, Any]) -> None:
        for name, value in names.items():
            if not isinstance(value, nn.Module) or len(self._first) >= LIMIT:
                continue
            key = f"{place}:{name}"
            before = self._first.setdefault(key, weakref.ref(value))()
            if before is None:
                self._first[key] = weakref.ref(value)
            elif before is not value:
                self._loose.add(key)


class Swaps:
    """Notes networks in which other weights stand for a while, as an average that is written in for an evaluation."""

    def __init__(self) -> None:
        self.found: set[int] = set()  # their numbers
        self._seen: dict[int, tuple[int, list[float]]] = {}  # number -> (step, some weights), at its last call

    def note(self, number: int, step: int, grad: bool, module: nn.Module) -> None:
        """At a call: its weights are not those of the last one, though no optimizer has stepped since."""
        before, values = self._seen.get(number, (-1, []))
        if grad and before != step:
            return  # one without grad may follow, and will be compared with the next
        weights = _some_weights(module)
        self._seen[number] = (step, weights)
        if before == step and any(abs(a - b) > 1e-4 * (abs(a) + abs(b)) for a, b in zip(values, weights, strict=False)):
            self.found.add(number)


def _some_weights(module: nn.Module) -> list[float]:
    """A few numbers of the first weights that the host has."""
    for tensor in module.parameters():
        if tensor.device.type == "cpu" and tensor.is_floating_point() and type(tensor) is nn.Parameter and tensor.numel():
            found: list[float] = tensor.detach().flatten()[:8].tolist()
            return found
    return []


def scopes(locator: Locator) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names that the user's frames know, and those in the dictionaries and objects that stand there, with the function."""
    seen: set[int] = set()
    for frame in locator.frames():
        if not locator._file(frame):
            continue
        own = (frame.f_code.co_qualname, local_names(frame))
        for place, names in (own, ("", dict(frame.f_globals) if id(frame.f_globals) not in seen else {})):
            if len(seen) > 64:
                return
            seen.add(id(frame.f_globals))
            yield place, names
            for name, value in list(names.items()):
                if id(value) not in seen and (inner := _names_in(value)):
                    seen.add(id(value))
                    yield f"{place}.{name}", inner


def containers_of(module: nn.Module, scope: dict[str, Any]) -> Iterator[tuple[nn.Module, list[str]]]:
    """Containers in a scope that hold a module, and the names of those that hold the same ones: shallow copies of each other."""
    groups: dict[tuple[Any, ...], list[tuple[str, Any]]] = {}
    for name, value in scope.items():
        held = _held_modules(value)
        if any(each is module for each in held):
            groups.setdefault((type(value), *map(id, held)), []).append((name, value))
    for group in groups.values():
        if len({id(value) for _, value in group}) > 1:
            parts = nn.ModuleList(_held_modules(group[0][1]))
            yield parts, [name for name, _ in group]


def _held_modules(value: Any) -> list[nn.Module]:
    """The modules right inside of a module, a list or a dictionary."""
    if isinstance(value, nn.Module):
        return [each for each in value._modules.values() if each is not None]
    if type(value) in (dict, OrderedDict):
        value = list(value.values())
    if type(value) not in (list, tuple) or not value or not all(isinstance(each, nn.Module) for each in value):
        return []
    return list(value)


def tensor_dicts(value: Any) -> list[dict[str, Tensor]]:
    """A dictionary of tensors, or those that an object keeps."""
    plain = (dict, OrderedDict, defaultdict)  # others may do anything when they are asked for what they hold
    if type(value) in plain:
        kept = value
    else:
        kept = vars(value) if hasattr(value, "__dict__") and not isinstance(value, (dict, type, Tensor, ModuleType)) else {}
    places = [kept, *kept.values()] if len(kept) <= 4096 else []
    found = [each for each in places if type(each) in plain and each]
    return [each for each in found if all(isinstance(tensor, Tensor) for tensor in each.values())]


def _names_in(value: Any) -> dict[str, Any]:
    """What a dictionary, or an object that is no module, calls the networks in it."""
    if type(value) in (dict, OrderedDict, defaultdict):  # others may do anything when they are asked for what they hold
        found = {name: each for name, each in list(value.items())[:32] if isinstance(name, str)}
    elif isinstance(value, (dict, nn.Module, type, Tensor, ModuleType)) or not hasattr(value, "__dict__"):
        return {}
    else:
        found = dict(list(vars(value).items())[:64])
    return found if sum(isinstance(each, nn.Module) or bool(_held_modules(each)) for each in found.values()) > 1 else {}
