"""Weights of one shape that begin equal and stay equal: members of an ensemble, heads, experts that were drawn with one seed.

Copies of a layer that stand behind each other begin equal too, and part with the first step. What is the same after many steps of
one optimizer, with gradients, learns the same.
"""

import weakref
from dataclasses import field

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.shards import is_sharded
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import Step

GROUPS = 32
LARGEST = 1 << 22


@record_class
class EqualMembers:
    """Weights of one optimizer that began equal."""

    optimizer: int
    names: list[str]
    shape: tuple[int, ...]
    steps: int = 0  # after which they were still equal
    apart: bool = False
    moved: bool = False  # all of them have had gradients, and are not what they were


@part_class
class EqualMemberships:
    """The part of the trace about them."""

    all: list[EqualMembers] = field(default_factory=list)


class EqualMemberWatch:
    """Fills `EqualMemberships`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(EqualMemberships)
        self._parameters = trace.part(Gradients).parameters
        self._seen: set[int] = set()
        self._groups: list[tuple[EqualMembers, list[weakref.ref[Tensor]], list[float]]] = []

    def before_step(self, step: Step) -> None:
        number = step.record.number
        if number in self._seen:
            return
        self._seen.add(number)
        found: dict[tuple[object, ...], list[Tensor]] = {}
        for tensor in (each for group in step.optimizer.param_groups for each in group["params"]):
            if tensor.dim() < 2 or is_sharded(tensor) or not 8 <= tensor.numel() <= LARGEST or not tensor.requires_grad:
                continue
            values = sample(tensor)
            if len(set(values)) > 4:
                found.setdefault((tuple(tensor.shape), *values), []).append(tensor)
        for group in found.values():
            if len(group) > 1 and len(self._groups) < GROUPS and all(torch.equal(group[0], each) for each in group[1:]):
                known = (self._parameters.get(id(tensor)) for tensor in group)
                fact = EqualMembers(number, [each.name for each in known if each is not None], tuple(group[0].shape))
                self._part.all.append(fact)
                self._groups.append((fact, [weakref.ref(tensor) for tensor in group], sample(group[0])))

    def on_judge(self) -> None:
        for fact, references, values in self._groups:
            alive = [tensor for reference in references if (tensor := reference()) is not None]
            if fact.apart or len(alive) < len(references):
                continue
            known = [self._parameters.get(id(tensor)) for tensor in alive]
            fact.apart = not all(torch.equal(alive[0], tensor) for tensor in alive[1:])
            fact.moved = sample(alive[0]) != values and all(each is not None and each.arrivals >= 10 for each in known)
            fact.steps = self._trace.steps


OBSERVERS = [EqualMemberWatch]
