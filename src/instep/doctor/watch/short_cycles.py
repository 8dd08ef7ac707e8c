"""Short update cycles: the last of an epoch has fewer backwards than the others, and its losses are divided by the same number.

Only losses are looked at that are a mean divided by plain numbers, where the user's own code calls backward: a framework that
does both has chosen it. A gradient that is written to before the step, by clipping or by hand, and a learning rate that is raised
for the step tell nothing: the user may have made up for it.
"""

from collections import Counter, deque
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.mean_losses import divisors
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.cycles import CyclePart
from instep.doctor.watch.gradients import Gradients, Parameter
from instep.doctor.watch.loaders import Pass
from instep.doctor.watch.optimizers import Step

LIMIT = 64  # pairs of an optimizer and its divisors
RAISED = 1.1  # times the learning rate of the step before


@record_class
class DividedCycles:
    """The cycles of one optimizer whose losses are divided by the same numbers."""

    optimizer: int
    divisors: tuple[float, ...]
    site: str | None  # of the last backward
    sizes: Counter[int] = field(default_factory=Counter)  # backwards of a cycle -> cycles, without those at ends of passes
    ends: deque[tuple[int, int]] = field(
        default_factory=lambda: deque(maxlen=64)
    )  # (step, backwards) of short ones, last in a pass
    others: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=64))  # … of short ones elsewhere
    largest: int = 0


@part_class
class ShortCycles:
    """The part of the trace about them."""

    all: dict[tuple[int, tuple[float, ...]], DividedCycles] = field(default_factory=dict)  # by optimizer and divisors


class _Short:
    """A short cycle of which nobody knows yet whether it is the last of its pass."""

    __slots__ = ("backward", "cycles", "place")

    def __init__(self, cycles: DividedCycles, backward: int, place: tuple[int, int]) -> None:
        self.cycles, self.backward, self.place = cycles, backward, place


class ShortCycleWatch:
    """Fills `ShortCycles`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._cycles = trace.part(ShortCycles), trace.part(CyclePart)
        self._parameters = trace.part(Gradients).parameters
        self._divisors: dict[int, tuple[float, ...]] = {}  # by backward
        self._left: dict[int, tuple[Parameter, list[float]]] = {}  # optimizer -> a gradient, as the last backward left it
        self._known: dict[int, tuple[int, ...]] = {}  # optimizer -> its parameters
        self._short: dict[int, _Short] = {}  # by optimizer
        self._rates: dict[int, float] = {}  # of the last step of an optimizer
        self._pass_ended = -1  # backwards begun when a pass over a loader ended last

    def on_wake(self) -> None:
        self._divisors.clear()
        self._left.clear()
        self._short.clear()
        self._rates.clear()

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        self._left.clear()
        found = divisors(tensor.grad_fn) if not backward.inside_step else ()
        if len(self._divisors) > LIMIT:
            self._divisors.clear()
        if found and self._hub.locator.is_called_by_user():
            self._divisors[backward.number] = found

    def after_backward(self, called: Called) -> None:
        if called.argument(1, "gradient") is not None or called.kwargs.get("grad_tensors") is not None:
            self._divisors.pop(self._trace.backwards, None)  # it begins with another number than 1
        if self._trace.backwards not in self._divisors:
            return
        for number, keys in self._known.items():
            probe = self._probe(keys)
            tensor = probe.reference() if probe is not None else None
            if probe is not None and tensor is not None and tensor.grad is not None:
                self._left[number] = (probe, sample(tensor.grad))

    def _probe(self, keys: tuple[int, ...]) -> Parameter | None:
        """The first parameter of an optimizer that the last backward has reached."""
        known = (self._parameters.get(key) for key in keys)
        return next((p for p in known if p is not None and p.held and p.held[-1].number == self._trace.backwards), None)

    def before_step(self, step: Step) -> None:
        number, fact = step.record.number, step.fact
        self._known[number] = step.record.parameters
        last_rate, left = self._rates.get(number), self._left.pop(number, None)
        noted = self._cycles.optimizers.get(number)
        if step.inside or fact is None or noted is None or noted.last_step != step.record.all_steps:
            return
        self._rates[number] = fact.lr
        self._settle(number)
        cycles = self._divided(number, noted.fresh)
        if cycles is None:
            return
        size = len(noted.fresh)
        if size >= cycles.largest:
            cycles.largest = size
            cycles.sizes[size] += 1
        elif _is_untouched(left) and _goes_by_size(step) and last_rate is not None and fact.lr <= RAISED * last_rate:
            self._note_short(cycles, noted.fresh[-1].number, (fact.number, size))

    def _divided(self, number: int, fresh: tuple[Backward, ...]) -> DividedCycles | None:
        """Of a cycle all of whose backwards come from one line, each after a call of its own, divided by the same numbers."""
        found = {self._divisors.pop(backward.number, ()) for backward in fresh}
        lines, calls = {backward.lines for backward in fresh}, {backward.calls for backward in fresh}
        if len(found) != 1 or found == {()} or len(lines) != 1 or len(calls) != len(fresh):
            return None
        if fresh[-1].loader is not None and len({backward.batches for backward in fresh}) != len(fresh):
            return None  # several losses on one batch, each with its weight
        key = (number, found.pop())
        if key not in self._part.all and len(self._part.all) >= LIMIT:
            return None
        return self._part.all.setdefault(key, DividedCycles(*key, fresh[-1].site))

    def _note_short(self, cycles: DividedCycles, backward: int, place: tuple[int, int]) -> None:
        if backward <= self._pass_ended:  # the step comes after the loop over the loader
            cycles.ends.append(place)
        else:
            self._short[cycles.optimizer] = _Short(cycles, backward, place)

    def _settle(self, number: int) -> None:
        """Another step has come: the short cycle before it was not the last of a pass."""
        short = self._short.pop(number, None)
        if short is not None:
            short.cycles.others.append(short.place)

    def on_pass_ends(self, ended: Pass) -> None:
        if not ended.backwards:
            return
        self._pass_ended = self._trace.backwards
        for number, short in list(self._short.items()):
            if short.backward == self._trace.backwards:
                short.cycles.ends.append(short.place)
                del self._short[number]


def _goes_by_size(step: Step) -> bool:
    """Whether a step moves weights by the gradients as they were computed: Rprop and optimizers of one's own may go by their
    sign, and hooks of the user's may have scaled them on their way."""
    if not step.is_torchs or isinstance(step.optimizer, torch.optim.Rprop):
        return False
    return not any(tensor._backward_hooks for group in step.optimizer.param_groups for tensor in group["params"])


def _is_untouched(left: tuple[Parameter, list[float]] | None) -> bool:
    """Whether the gradient is what the last backward has left."""
    tensor = left[0].reference() if left is not None else None
    return (
        left is not None and bool(left[1]) and tensor is not None and tensor.grad is not None and sample(tensor.grad) == left[1]
    )


OBSERVERS: list[Any] = [ShortCycleWatch]
