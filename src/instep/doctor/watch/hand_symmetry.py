"""Weights that are updated by hand, in no optimizer, and whose units begin equal and stay so. Read from the graphs of losses."""

import weakref
from dataclasses import field

import torch
from torch import Tensor

from instep.doctor.bare_leaves import leaves_of, name_of
from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.optimizers import Optimizers

MEASURED = (24, 64)  # backwards before which they are looked at again
LIMIT = 16
LARGEST = 1 << 20
CLOSE = 1e-5  # of the largest weight


@record_class
class HandSymmetry:
    """A weight whose rows, or columns, were all equal at the first backward."""

    name: str
    shape: tuple[int, ...]
    site: str | None
    value: float
    rows: bool  # else columns
    backwards: int = 0  # after which they still were
    same: bool = False


@part_class
class HandSymmetries:
    """The part of the trace about them."""

    all: list[HandSymmetry] = field(default_factory=list)


class HandSymmetryWatch:
    """Fills `HandSymmetries`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part, self._hub, self._optimizers = trace.part(HandSymmetries), hub, trace.part(Optimizers)
        self._weights: list[tuple[HandSymmetry, weakref.ref[Tensor], Tensor]] = []  # and one row, or column, as it began

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        if self._optimizers.all or tensor.grad_fn is None:
            return
        if backward.number == 1:
            for leaf in leaves_of(tensor.grad_fn):
                self._note(leaf, backward.site)
        elif backward.number in MEASURED:
            for fact, reference, first in self._weights:
                self._measure(fact, reference(), first, backward.number)

    def _note(self, leaf: Tensor, site: str | None) -> None:
        plain = leaf.dim() == 2 and leaf.device.type == "cpu" and leaf.layout is torch.strided
        if not plain or min(leaf.shape) < 2 or leaf.numel() > LARGEST or len(self._weights) >= LIMIT:
            return
        weight = leaf.detach()
        for rows in (True, False):
            units = weight if rows else weight.t()
            if bool((units == units[:1]).all()):
                name = name_of(leaf, self._hub.locator) or f"a tensor of shape {tuple(leaf.shape)}"
                fact = HandSymmetry(name, tuple(leaf.shape), site, float(units[0, 0]), rows)
                self._part.all.append(fact)
                self._weights.append((fact, weakref.ref(leaf), units[0].clone()))

    def _measure(self, fact: HandSymmetry, leaf: Tensor | None, first: Tensor, number: int) -> None:
        if leaf is None:
            return
        weight = leaf.detach()
        units = weight if fact.rows else weight.t()
        moved = not torch.equal(units[0], first)
        fact.same = moved and bool((units - units[:1]).abs().max() <= CLOSE * float(weight.abs().max()))
        fact.backwards = number


OBSERVERS = [HandSymmetryWatch]
