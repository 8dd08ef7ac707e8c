"""Attributes: what the objects of a run hold beside parameters and buffers, and a run may change: state outside of tensors.

A counter in a model, tensors in a list, a generator of its own, a number on an optimizer, a teacher in a closure. They are looked
at before the first update; a checkpoint keeps those that are no longer what they were then, by the path of their owner. Nothing
is done in an update.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.checkpoint.layout import plan_layout
from instep.checkpoint.tagged import Encoder
from instep.distributed.world import World
from instep.errors import CheckpointError, give_notice
from instep.loop.holders import Globals, Holders, ModuleNames, Names, has_attributes, opened
from instep.run.frozen_values import CONTAINERS, NotFrozen, Thawing, TooLong, address, freeze, has_sums, same
from instep.text import listed

Kept = dict[str, dict[str, Any]]  # of each owner, by name

_MOST = 200_000  # values; of a larger run the rest is not looked at
_MISSING, _UNKNOWN = object(), object()
_OF_OPTIMIZERS = frozenset(
    {*vars(torch.optim.SGD([torch.zeros(1)])), "step", "_opt_called", "_step_count"}  # torch's schedulers leave the last three
)


class Attributes:
    """The attributes of a run's holders: which have changed since its start, and how to put them back."""

    def __init__(self, holders: Holders, optimizers: Mapping[str, Optimizer], device: torch.device) -> None:
        self._holders = holders
        self._optimizers = {f"optimizer {name}".strip(): optimizer for name, optimizer in optimizers.items()}
        self._device = device
        self._begun: dict[tuple[str, str], Any] | None = None
        self._unknown: dict[str, tuple[Any, str]] = {}  # what cannot be kept, as it was at the last look
        self._unkept: dict[str, str] = {}  # what of that has changed since the first update, and its type
        self._said: set[str] = set()

    def begin(self) -> None:
        """Remember how everything is before the run changes it; once."""
        if self._begun is None:
            walk = self._walk()
            frozen = {place: walk.frozen(value) for place, value in walk.values.items()}
            self._begun = {place: value for place, value in frozen.items() if value is not _UNKNOWN}

    def changed(self) -> Kept:
        """What is no longer as it was, and can be kept; copied. Nothing in a run without a folder, where nobody looked."""
        if self._begun is None:
            return {}
        walk, kept = self._walk(), Kept()
        for (owner, name), value in walk.values.items():
            frozen, before = walk.frozen(value), self._begun.get((owner, name), _MISSING)
            if frozen is _UNKNOWN and before is not _MISSING and isinstance(value, CONTAINERS):  # it has become too long
                self._unkept.setdefault(f"{owner}.{name}", type(value).__name__)
            if frozen is _UNKNOWN or same(before, frozen):
                continue
            whole = freeze(value, left=walk.left, large=None) if has_sums(frozen) else frozen
            if _can_be_kept(whole):
                kept.setdefault(owner, {})[name] = whole
        self.say_unkept()
        return kept

    def restore(self, kept: Kept) -> None:
        """Everything as it was when `changed` gave this; what it does not name is as it was at the start."""
        self.begin()
        assert self._begun is not None
        walk = self._walk()
        thawing = Thawing(self._device, _apart(walk.values, kept))
        lost = [f"{owner}.{name}" for owner, values in kept.items() for name in values if owner not in walk.owners]
        for place, value in walk.values.items():
            if place[1] not in kept.get(place[0], {}) and (frozen := walk.frozen(value)) is not _UNKNOWN:
                before = self._begun.get(place, _MISSING)
                if not same(before, frozen) and not has_sums(before):
                    walk.owners[place[0]].put(place[1], before if before is _MISSING else thawing.thaw(value, before))
        for owner, values in kept.items():
            for name, frozen in values.items() if owner in walk.owners else ():
                try:
                    walk.owners[owner].put(name, thawing.thaw(walk.values.get((owner, name)), frozen))
                except (TypeError, ValueError, RuntimeError, KeyError, AttributeError, IndexError) as error:
                    raise CheckpointError(f"{owner}.{name} cannot be put back as the checkpoint has it: {error}") from error
        if lost:
            give_notice(f"the checkpoint has {listed(lost)}, and nothing in this run holds that; it is left out.")

    def look(self) -> None:
        """After some of the first updates: see what changes from one to the next and cannot be kept."""
        walk = self._walk()
        now = {
            f"{owner}.{name}": (_token(value), type(value).__name__)
            for (owner, name), value in walk.values.items()
            if walk.frozen(value) is _UNKNOWN and not walk.keeps_itself(owner)
        }
        for path, (token, kind) in now.items():
            if path in self._unknown and self._unknown[path][0] != token:
                self._unkept.setdefault(path, kind)
        self._unknown = now

    def say_unkept(self) -> None:
        """Name what a checkpoint does not keep, as far as that has been seen; each once."""
        new = [path for path in self._unkept if path not in self._said]
        self._said.update(new)
        if new:
            named = listed([f"{path} (a {self._unkept[path]})" for path in new])
            give_notice(
                f"{named} changes while the run trains, and a checkpoint cannot keep it: a resumed run has it as at the start. "
                "If updates depend on it, make it a tensor (register_buffer), give the module get_extra_state() and "
                "set_extra_state(), or draw from the global generators, which are seeded by position (instep.keys)."
            )

    def say_apart(self, world: World) -> None:
        """Name what has become different on several processes: a checkpoint keeps that of rank 0."""
        values = {f"{owner}.{name}": value for owner, held in self.changed().items() for name, value in held.items()}
        by_rank = world.gather_objects({path: repr(freeze(value, large=0)) for path, value in values.items()})
        apart = [path for path, text in by_rank[0].items() if any(other.get(path) != text for other in by_rank[1:])]
        if apart and world.is_first:
            give_notice(
                f"{listed(apart)} is not the same on all processes; a checkpoint keeps that of rank 0, and a resumed run has it "
                "on all of them."
            )

    def _walk(self) -> "_Walk":
        return _Walk(self._holders, self._optimizers)


class _Owner(NamedTuple):
    """Something that holds values by name."""

    thing: Any
    put: Callable[[str, Any], object]


class _Walk:
    """One look at everything: `values` by owner and name; objects are entered, so that the values are what they hold."""

    def __init__(self, holders: Holders, optimizers: Mapping[str, Optimizer]) -> None:
        self.owners: dict[str, _Owner] = {}
        self.values: dict[tuple[str, str], Any] = {}
        self._seen: set[int] = {id(optimizer) for optimizer in optimizers.values()}
        self._kept_elsewhere = {part for root in (holders.model, *holders.given) for part in root.modules()}
        self.left = {address(tensor) for tensor in _kept_tensors(holders, optimizers.values())}
        for name, root in holders.roots.items():
            for part in opened(root):
                self._enter("globals" if isinstance(part, Globals) else name, part)
        for name, optimizer in optimizers.items():
            self._own(name, optimizer, _without(vars(optimizer), _OF_OPTIMIZERS), vars(optimizer))

    def frozen(self, value: Any) -> Any:
        """A copy that can be compared; _UNKNOWN where there is none."""
        try:
            return freeze(value, left=self.left)
        except (NotFrozen, TooLong):
            return _UNKNOWN

    def keeps_itself(self, owner: str) -> bool:
        """Whether it is a module that says itself what there is to keep."""
        thing = self.owners[owner].thing
        return isinstance(thing, nn.Module) and type(thing).get_extra_state is not nn.Module.get_extra_state

    def _enter(self, path: str, thing: Any) -> None:
        if id(thing) in self._seen or len(self.values) > _MOST:
            return
        self._seen.add(id(thing))
        if isinstance(thing, nn.Module):
            self._enter_module(path, thing)
        elif isinstance(thing, Names):
            self._own(path, thing, thing.items(), thing.put)
        elif isinstance(thing, dict):
            keys = {str(key): key for key in thing}
            self._own(
                path, thing, {name: thing[key] for name, key in keys.items()}, lambda name, v: thing.update({keys[name]: v})
            )
        elif isinstance(thing, list):
            self._own(path, thing, dict(_numbered(thing)), lambda name, value: thing.__setitem__(int(name), value))
        elif isinstance(thing, CONTAINERS):
            self._own(path, thing, dict(_numbered(thing)), _cannot_put)
        else:
            self._own(path, thing, vars(thing), vars(thing))

    def _enter_module(self, path: str, module: nn.Module) -> None:
        held = ModuleNames(module).items()
        if module not in self._kept_elsewhere:
            held |= module._parameters | module._buffers
        self._own(path, module, held, _put_into(module))
        for name, child in module._modules.items():
            if child is not None:
                self._enter(f"{path}.{name}", child)

    def _own(self, path: str, thing: Any, held: Mapping[str, Any], put: dict[str, Any] | Callable[[str, Any], object]) -> None:
        number, wanted = 1, path
        while path in self.owners:
            number += 1
            path = f"{wanted}~{number}"
        self.owners[path] = _Owner(thing, _put_into_dict(put) if isinstance(put, dict) else put)
        for name, value in held.items():
            self._take(path, name, value)

    def _take(self, path: str, name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            if address(value) not in self.left:
                self.values[path, name] = value
        elif isinstance(value, nn.Module) or has_attributes(value) or self._has_objects(value):
            self._enter(f"{path}.{name}", value)
        elif not callable(value) and not isinstance(value, Optimizer):
            self.values[path, name] = value

    def _has_objects(self, value: Any) -> bool:
        if type(value) not in CONTAINERS:
            return False
        try:
            freeze(value, left=self.left, large=0)
        except NotFrozen:
            return True
        except TooLong:
            return False
        return False


def _kept_tensors(holders: Holders, optimizers: Iterable[Optimizer]) -> Iterator[Tensor]:
    """Those that other parts of a checkpoint hold."""
    for module in (holders.model, *holders.given):
        yield from module.parameters()
        yield from module.buffers()
    for optimizer in optimizers:
        yield from (parameter for group in optimizer.param_groups for parameter in group["params"])


def _without(held: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if name not in names}


def _numbered(entries: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((str(number), entry) for number, entry in enumerate(entries))


def _put_into_dict(held: dict[str, Any]) -> Callable[[str, Any], None]:
    def put(name: str, value: Any) -> None:
        if value is _MISSING:
            held.pop(name, None)
        else:
            held[name] = value

    return put


def _put_into(module: nn.Module) -> Callable[[str, Any], None]:
    def put(name: str, value: Any) -> None:
        held = module._buffers if name in module._buffers else module._parameters if name in module._parameters else vars(module)
        if held.get(name) is not value:
            _put_into_dict(held)(name, value)

    return put


def _cannot_put(name: str, value: Any) -> None:
    """The entries of a tuple or a set stay; what they hold has been put back."""


def _apart(values: Mapping[tuple[str, str], Any], kept: Kept) -> set[int]:
    """The addresses of tensors that several names have now, and that these names are to have different values of."""
    holders: dict[int, list[tuple[str, str]]] = {}
    for place, value in values.items():
        if isinstance(value, Tensor):
            holders.setdefault(address(value), []).append(place)
    wanted = {where: [kept.get(owner, {}).get(name) for owner, name in places] for where, places in holders.items()}
    return {where for where, each in wanted.items() if not all(same(each[0], other) for other in each[1:])}


def _can_be_kept(value: Any) -> bool:
    encoder = Encoder("attributes")
    try:
        encoder.encode(value)
        plan_layout(encoder.tensors, "attributes")
    except CheckpointError:
        return False
    return True


def _token(value: Any) -> Any:
    """What shows that an unknown thing is another one than before, or has been written to."""
    if isinstance(value, Tensor):
        return (id(value), -1 if value.is_inference() else value._version)
    return (id(value), len(value)) if isinstance(value, CONTAINERS) else id(value)
