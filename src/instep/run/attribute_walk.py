"""AttributeWalk: one look at what the objects of a run hold: every value by the path of its owner and its name.

Modules, objects of a user's classes, and lists with such things in them are entered; all else is a value. Tensors that other
parts of a checkpoint keep, and views of them, are left out.
"""

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.loop.holders import Globals, Holders, ModuleNames, Names, has_attributes, opened
from instep.run.frozen_values import CONTAINERS, PLAIN, NotFrozen, TooLong, address, freeze

UNKNOWN = object()  # in place of the copy of a value that cannot be copied here

_MOST = 200_000  # values; of a larger run the rest is not looked at


class AttributeWalk:
    """One look at everything: `values` by owner and name; objects are entered, so that the values are what they hold."""

    def __init__(self, holders: Holders, optimizers: Mapping[str, Optimizer]) -> None:
        self.owners: dict[str, Names] = {}
        self.values: dict[tuple[str, str], Any] = {}
        self.keeping: set[str] = set()  # the owners that say themselves what there is to keep
        self._seen: set[int] = {id(optimizer) for optimizer in optimizers.values()}
        self._kept_elsewhere = {part for root in (holders.model, *holders.given) for part in root.modules()}
        self.left = {address(tensor) for tensor in _kept_tensors(holders, optimizers.values())}
        for name, root in holders.roots.items():
            for part in opened(root):
                self._enter("globals" if isinstance(part, Globals) else name, part)
        for name, optimizer in optimizers.items():
            self._own(name, OptimizerNames(vars(optimizer)))

    def frozen(self, value: Any) -> Any:
        """A copy that can be compared; UNKNOWN where there is none."""
        try:
            return freeze(value, left=self.left)
        except (NotFrozen, TooLong):
            return UNKNOWN

    def _enter(self, path: str, thing: Any) -> None:
        if id(thing) in self._seen or len(self.values) > _MOST:
            return
        self._seen.add(id(thing))
        if isinstance(thing, nn.Module):
            self._enter_module(path, thing)
        elif isinstance(thing, Names):
            self._own(path, thing)
        elif isinstance(thing, CONTAINERS):
            self._own(path, EntryNames(thing))
        else:
            self._own(path, Names(vars(thing)))

    def _enter_module(self, path: str, module: nn.Module) -> None:
        if type(module).get_extra_state is not nn.Module.get_extra_state:
            self.keeping.add(path)
        self._own(path, ModuleNames(module) if module in self._kept_elsewhere else HiddenModuleNames(module))
        for name, child in module._modules.items():
            if child is not None:
                self._enter(f"{path}.{name}", child)

    def _own(self, path: str, owner: Names) -> None:
        number, wanted = 1, path
        while path in self.owners:
            number += 1
            path = f"{wanted}~{number}"
        self.owners[path] = owner
        for name, value in owner.items().items():
            self._take(path, name, value)

    def _take(self, path: str, name: str, value: Any) -> None:
        if type(value) in PLAIN:
            self.values[path, name] = value
        elif isinstance(value, Tensor):
            if address(value) not in self.left:
                self.values[path, name] = value
        elif isinstance(value, nn.Module) or has_attributes(value) or self._has_objects(value):
            self._enter(f"{path}.{name}", value)
        elif not callable(value) and not isinstance(value, Optimizer):
            self.values[path, name] = value

    def _has_objects(self, value: Any) -> bool:
        try:
            freeze(value, left=self.left, large=0)
        except NotFrozen:
            return type(value) in CONTAINERS
        except TooLong:
            return False
        return False


class OptimizerNames(Names):
    """The attributes of an optimizer, but for torch's own."""

    def items(self) -> dict[str, Any]:
        return {name: value for name, value in self._held.items() if name not in _names_of_optimizers()}


@functools.cache
def _names_of_optimizers() -> frozenset[str]:
    """What torch keeps in its optimizers; asked for late, since torch loads its compiler with the first one that is made."""
    parameter = [torch.zeros(1)]
    of_schedulers = {"step", "_opt_called", "_step_count"}
    return frozenset({*vars(torch.optim.SGD(parameter)), *vars(torch.optim.LBFGS(parameter)), *of_schedulers})


class HiddenModuleNames(ModuleNames):
    """A module that no state_dict knows of: its tensors are attributes like any other."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        self._module = module

    def items(self) -> dict[str, Any]:
        return super().items() | self._module._parameters | self._module._buffers

    def put(self, name: str, value: Any) -> None:
        tensors = next((held for held in (self._module._parameters, self._module._buffers) if name in held), None)
        if tensors is None:
            super().put(name, value)
        elif tensors[name] is not value:
            tensors[name] = value


class EntryNames(Names):
    """What a list or a dictionary holds beside objects; the entries of a tuple or a set cannot be replaced."""

    def __init__(self, entries: Any) -> None:
        self._entries = entries
        self._keys = {str(key): key for key in (entries if isinstance(entries, dict) else range(len(entries)))}

    def items(self) -> dict[str, Any]:
        values = self._entries.values() if isinstance(self._entries, dict) else self._entries
        return dict(zip(self._keys, values, strict=True))

    def put(self, name: str, value: Any) -> None:
        if isinstance(self._entries, dict | list | deque) and name in self._keys:
            self._entries[self._keys[name]] = value

    def remove(self, name: str) -> None:
        """What has been added stays: nobody knows the objects beside it."""


def _kept_tensors(holders: Holders, optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    """Those that other parts of a checkpoint hold."""
    for module in (holders.model, *holders.given):
        yield from module.parameters()
        yield from module.buffers()
    for optimizer in optimizers:
        yield from (parameter for group in optimizer.param_groups for parameter in group["params"])
