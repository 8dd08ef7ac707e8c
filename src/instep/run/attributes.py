"""Attributes: what the objects of a run hold beside parameters and buffers, and a run may change: state outside of tensors.

A counter in a model, tensors in a list, a generator of its own, a number on an optimizer, a teacher in a closure. They are looked
at before the first update; a checkpoint keeps those that are no longer what they were then, by the path of their owner. Nothing
is done in an update.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from instep.checkpoint.layout import plan_layout
from instep.checkpoint.tagged import Encoder
from instep.distributed.world import World
from instep.errors import CheckpointError, give_notice
from instep.loop.holders import Holders
from instep.run.attribute_walk import UNKNOWN, AttributeWalk
from instep.run.frozen_values import CONTAINERS, Thawing, address, freeze, has_sums, same
from instep.text import listed

Kept = dict[str, dict[str, Any]]  # of each owner, by name

_MISSING = object()


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
            self._begun = {place: walk.frozen(value) for place, value in walk.values.items()}

    def changed(self) -> Kept:
        """What is no longer as it was, and can be kept; copied. Nothing in a run without a folder, where nobody looked."""
        if self._begun is None:
            return {}
        walk, kept = self._walk(), Kept()
        for (owner, name), value in walk.values.items():
            frozen, before = walk.frozen(value), self._begun.get((owner, name), _MISSING)
            if same(before, frozen) or (frozen is UNKNOWN and not isinstance(value, CONTAINERS)):
                continue
            whole = freeze(value, left=walk.left, large=None) if has_sums(frozen) else frozen
            if whole is not UNKNOWN and _encoded(whole) is not None:
                kept.setdefault(owner, {})[name] = whole
            elif owner not in walk.keeping:  # it has become too long, or is of a kind that no file keeps
                self._unkept.setdefault(f"{owner}.{name}", type(value).__name__)
        self.say_unkept()
        return kept

    def restore(self, kept: Kept) -> None:
        """Everything as it was when `changed` gave this; what it does not name is as it was at the start."""
        self.begin()
        assert self._begun is not None
        walk = self._walk()
        thawing = Thawing(self._device, _apart(walk.values, kept))
        lost = [f"{path}.{name}" for path, values in kept.items() for name in values if path not in walk.owners]
        for (path, name), value in walk.values.items():
            if name not in kept.get(path, {}) and (frozen := walk.frozen(value)) is not UNKNOWN:
                before, owner = self._begun.get((path, name), _MISSING), walk.owners[path]
                if before is _MISSING:
                    owner.remove(name)
                elif before is not UNKNOWN and not same(before, frozen) and not has_sums(before):
                    owner.put(name, thawing.thaw(value, before))
        for path, values in kept.items():
            for name, frozen in values.items() if path in walk.owners else ():
                try:
                    walk.owners[path].put(name, thawing.thaw(walk.values.get((path, name)), frozen))
                except (TypeError, ValueError, RuntimeError, KeyError, AttributeError, IndexError) as error:
                    raise CheckpointError(f"{path}.{name} cannot be put back as the checkpoint has it: {error}") from error
        if lost:
            give_notice(f"the checkpoint has {listed(lost)}, and nothing in this run holds that; it is left out.")

    def look(self) -> None:
        """After some of the first updates: see what changes from one to the next and cannot be kept."""
        walk = self._walk()
        now = {
            f"{owner}.{name}": (_token(value), type(value).__name__)
            for (owner, name), value in walk.values.items()
            if walk.frozen(value) is UNKNOWN and owner not in walk.keeping
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
        by_rank = world.gather_objects({path: _text(value) for path, value in values.items()})
        apart = [path for path, text in by_rank[0].items() if any(other.get(path) != text for other in by_rank[1:])]
        if apart and world.is_first:
            give_notice(
                f"{listed(apart)} is not the same on all processes; a checkpoint keeps that of rank 0, and a resumed run has it "
                "on all of them."
            )

    def _walk(self) -> AttributeWalk:
        return AttributeWalk(self._holders, self._optimizers)


def _apart(values: Mapping[tuple[str, str], Any], kept: Kept) -> set[int]:
    """The addresses of tensors that several names have now, and that these names are to have different values of."""
    holders: dict[int, list[tuple[str, str]]] = {}
    for place, value in values.items():
        if isinstance(value, Tensor):
            holders.setdefault(address(value), []).append(place)
    wanted = {where: [kept.get(owner, {}).get(name) for owner, name in places] for where, places in holders.items()}
    return {where for where, each in wanted.items() if not all(same(each[0], other) for other in each[1:])}


def _encoded(value: Any) -> tuple[Any, list[Tensor]] | None:
    """A frozen value as a checkpoint keeps it; None where it cannot."""
    encoder = Encoder("attributes")
    try:
        encoded = encoder.encode(value)
        plan_layout(encoder.tensors, "attributes")
    except CheckpointError:
        return None
    return encoded, list(encoder.tensors.values())


def _text(value: Any) -> str:
    """What is the same on all processes where the value is: the order of a set is not."""
    encoded, tensors = _encoded(value) or ("", [])
    return repr((encoded, [freeze(tensor, large=0) for tensor in tensors]))


def _token(value: Any) -> Any:
    """What shows that an unknown thing is another one than before, or has been written to."""
    if isinstance(value, Tensor):
        return (id(value), -1 if value.is_inference() else value._version)
    return (id(value), len(value)) if isinstance(value, CONTAINERS) else id(value)
