"""Weights of one shape that begin equal and stay equal: members of an ensemble, heads, experts that were drawn with one seed.

Copies of a layer that stand behind each other begin equal too, and part with the first step. What is the same after many steps of
one optimizer, with gradients, learns the same. Replicas whose gradients are averaged stay equal on purpose: after a backward
their gradients differ, and the step finds them equal.
"""

import weakref
from dataclasses import field

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.shards import is_sharded
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import OptimizerRecord, Step

GROUPS = 32
LARGEST = 1 << 22
LOOKS = 64  # backwards after which gradients are compared


@record_class
class EqualMembers:
    """Weights of one optimizer that began equal."""

    optimizer: int
    names: list[str]
    shape: tuple[int, ...]
    steps: int = 0  # after which they were still equal
    apart: bool = False
    moved: bool = False  # all of them have had gradients, and are not what they were
    looks: int = 0
    differed: bool = False  # their gradients, after the last backward
    averaged: bool = False  # they differed, and were made equal before a step


@part_class
class EqualMemberships:
    """The part of the trace about them."""

    all: list[EqualMembers] = field(default_factory=list)


class EqualMemberWatch:
    """Fills `EqualMemberships`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(EqualMemberships)
        self._parameters = trace.part(Gradients).parameters
        self._records: dict[int, OptimizerRecord] = {}
        self._groups: list[tuple[EqualMembers, list[weakref.ref[Tensor]], list[float]]] = []

    def before_step(self, step: Step) -> None:
        number = step.record.number
        for fact, references, _values in self._groups:
            if fact.differed and fact.optimizer == number:
                fact.differed = False
                fact.averaged = fact.averaged or _are_equal(references)
        if number in self._records:
            return
        self._records[number] = step.record
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

    def after_backward(self, _: Called) -> None:
        for fact, references, _values in self._groups:
            if not fact.averaged and not fact.apart and fact.looks < LOOKS:
                fact.looks += 1
                fact.differed = not _are_equal(references)

    def on_judge(self) -> None:
        for fact, references, values in self._groups:
            alive = [tensor for reference in references if (tensor := reference()) is not None]
            if fact.apart or len(alive) < len(references):
                continue
            known = [self._parameters.get(id(tensor)) for tensor in alive]
            fact.apart = not all(torch.equal(alive[0], tensor) for tensor in alive[1:])
            fact.moved = sample(alive[0]) != values and all(each is not None and each.arrivals >= 10 for each in known)
            fact.steps = self._records[fact.optimizer].all_steps


def _are_equal(references: list[weakref.ref[Tensor]]) -> bool:
    """Whether all these weights have gradients, and the same."""
    grads = [tensor.grad for reference in references if (tensor := reference()) is not None]
    first = grads[0] if grads else None
    return first is not None and all(grad is not None and torch.equal(first, grad) for grad in grads[1:])


OBSERVERS = [EqualMemberWatch]
