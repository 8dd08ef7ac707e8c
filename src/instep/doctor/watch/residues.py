"""Where an optimizer of the user's own keeps what low-precision weights cannot hold: masters, compensation, random rounding.

Of torch's optimizers it is known that they keep nothing. Another one is searched: whatever it has of the size of a weight, and
whether its step draws random numbers. What is not found may be elsewhere; so the weights must also have stood still over many
steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import Step

LOW = (torch.bfloat16, torch.float16)
LOOKS = 32  # steps that are looked at, one in four
OBJECTS = 4096
ELEMENTS = 4096
OWN = ("param_groups", "state", "defaults")  # what every optimizer has; its state is looked through by itself


@dataclass(slots=True)
class Residue:
    """One optimizer that is not torch's, with low-precision weights."""

    looks: int = 0
    clear: int = 0  # of those: nothing was found that could hold the rest of a weight
    steps: int = 0  # between the first look and the last
    stayed: float = 0.0  # share of elements with gradient that were the same at both


@dataclass
class Residues:
    """The part of the trace about residues."""

    optimizers: dict[int, Residue] = field(default_factory=dict)  # by number


class ResidueWatch:
    """Fills `Residues`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(Residues)
        self._first: dict[
            int, tuple[int, list[Tensor]]
        ] = {}  # optimizer -> its steps and the beginnings of weights at the first look
        self._draws: tuple[int, Tensor] | None = None

    def before_step(self, step: Step) -> None:
        self._draws = None
        number, count = step.record.number, step.record.steps
        if step.inside or step.closure or count % 4 != 1 or type(step.optimizer).__module__.startswith("torch.optim"):
            return
        weights = [tensor for tensor in _weights(step.optimizer) if tensor.grad is not None]
        residue = self._part.optimizers.get(number)
        if not weights or (residue is not None and residue.looks >= LOOKS) or len(self._part.optimizers) > 32:
            return
        if residue is None:
            residue = self._part.optimizers[number] = Residue()
            self._first[number] = (count, [_beginning(tensor).clone() for tensor in weights])
        residue.looks += 1
        residue.clear += not any(holds_the_rest(step.optimizer, tensor) for tensor in weights)
        self._compare(residue, number, count, weights)
        self._draws = (number, torch.get_rng_state())

    def _compare(self, residue: Residue, number: int, count: int, weights: list[Tensor]) -> None:
        began, first = self._first[number]
        same = total = 0
        for tensor, old in zip(weights, first, strict=False):
            if tensor.grad is not None and tensor.grad.shape == tensor.shape and len(old) == len(_beginning(tensor)):
                pulled = _beginning(tensor.grad) != 0
                same += int(((_beginning(tensor) == old) & pulled).sum())
                total += int(pulled.sum())
        residue.steps, residue.stayed = count - began, same / total if total else 0.0

    def after_step(self, step: Step) -> None:
        draws, self._draws = self._draws, None
        if draws is not None and draws[0] == step.record.number and not torch.equal(draws[1], torch.get_rng_state()):
            self._part.optimizers[draws[0]].clear -= 1  # rounds by chance, perhaps


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Some low-precision weights on the CPU: the first and the last matrices."""
    found = [
        tensor
        for group in optimizer.param_groups
        for tensor in group["params"]
        if tensor.dtype in LOW and tensor.dim() >= 2 and tensor.device.type == "cpu" and tensor.numel() >= 16
    ]
    return found if len(found) <= 4 else [*found[:2], *found[-2:]]


def _beginning(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1)[:ELEMENTS]


def holds_the_rest(optimizer: torch.optim.Optimizer, weight: Tensor) -> bool:
    """Whether an optimizer has anything that may keep what rounding takes from a weight; True as well where nobody knows."""
    kept = optimizer.state.get(weight, {})
    others = {name: value for name, value in vars(optimizer).items() if name not in OWN}
    return any(_may_hold(each, weight) for each in (*_inside(kept), *_inside(others)))


def _may_hold(each: Any, weight: Tensor) -> bool:
    if isinstance(each, torch.Generator):
        return True
    if not isinstance(each, Tensor) or each is weight or each.numel() < weight.numel():
        return False
    if each.numel() != weight.numel() or not each.is_floating_point() or each.device != weight.device:
        return True  # a flat copy of all weights, the lower bits of them: who knows
    mine, given = _beginning(weight).float(), _beginning(each).float()
    if not bool(given.any()):
        return True  # nothing so far
    if torch.equal(given.to(weight.dtype), _beginning(weight)):
        return True  # a master
    return bool((given.abs() <= mine.abs() / 64).float().mean() > 0.98)  # what is left over from rounding


def _inside(value: Any) -> Iterator[Any]:
    """Tensors and generators in lists, dictionaries and optimizers, to some depth."""
    pending, seen = [(value, 0)], 0
    while pending and seen < OBJECTS:
        each, depth = pending.pop()
        seen += 1
        if isinstance(each, (Tensor, torch.Generator)):
            yield each
        elif depth < 4:
            inner: Any = ()
            if isinstance(each, dict):
                inner = each.values()
            elif isinstance(each, (list, tuple)):
                inner = each
            elif isinstance(each, torch.optim.Optimizer):
                inner = (each.param_groups, each.state)
            pending += [(part, depth + 1) for part in inner]


OBSERVERS = [ResidueWatch]
