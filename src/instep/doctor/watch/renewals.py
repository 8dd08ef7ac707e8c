"""Renewals: optimizers that are made again for the same parameters, and optimizers that are loaded from a checkpoint."""

import weakref
from collections import deque
from dataclasses import field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers, Step

LIMIT = 128


@record_class
class Term:
    """One optimizer of several that were made for the same parameters."""

    number: int
    lr: float
    made_step: int
    begun: int = 0  # steps of this optimizer before it
    site: str | None = None  # where it was made
    passes: int = 0  # passes over loaders that ended while it was the newest, with steps in them
    loader: int | None = None  # that of the last of those passes
    steps: int = 0  # of this optimizer
    rewritten: bool = False  # the weights were written to between its last step and the next optimizer


@record_class
class Line:
    """Optimizers of one class that were made for the same parameters, one after the other."""

    name: str
    site: str | None
    stateful: bool
    parameters: int
    terms: deque[Term] = field(default_factory=lambda: deque(maxlen=64))
    made: int = 1
    cleared: int = 0  # of those: an optimizer that was there lost all of its state


@record_class
class Loaded:
    """An optimizer that got its state from elsewhere before its first step."""

    optimizer: int
    name: str
    site: str | None
    made: tuple[float, ...]  # lr of the groups as made
    loaded: tuple[float, ...]
    initial: tuple[float | None, ...]  # initial_lr of the loaded groups
    used: tuple[float, ...] = ()  # lr at its next step
    peaks: tuple[float | None, ...] = ()  # max_lr of the groups before, which OneCycleLR writes there


@part_class
class Renewals:
    """The part of the trace about them."""

    lines: list[Line] = field(default_factory=list)
    loads: list[Loaded] = field(default_factory=list)


class RenewalWatch:
    """Fills `Renewals`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._optimizers = trace, trace.part(Renewals), trace.part(Optimizers)
        self._lines: dict[tuple[int, ...], tuple[Line, weakref.ref[Tensor]]] = {}
        self._newest: dict[int, tuple[Term, weakref.ref[Tensor]]] = {}  # by number of the optimizer
        self._versions: dict[int, int] = {}  # version of its first parameter after the last step
        self._waiting: dict[int, Loaded] = {}
        self._numbers: dict[int, int] = {}
        self._before: tuple[float, ...] = ()  # the rates before the load that goes on
        self._line_of: dict[int, Line] = {}  # by number of the optimizer
        self._filled: set[int] = set()  # optimizers that had some state after their last step

    def on_optimizer(self, record: OptimizerRecord, optimizer: Optimizer) -> None:
        self._numbers[id(optimizer)] = record.number
        tensors: list[Tensor] = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        if not tensors or len(self._lines) > LIMIT:
            return
        key = (hash(type(optimizer)), *(id(tensor) for tensor in tensors))
        known = self._lines.get(key)
        term = Term(record.number, record.lrs[0], self._trace.steps, site=record.site)
        if known is None or known[1]() is not tensors[0]:  # ids come again when tensors have died
            line = Line(record.name, record.site, _stateful(optimizer), len(tensors))
            if len(self._part.lines) < LIMIT:
                self._part.lines.append(line)
        else:
            line = known[0]
            self._end(line.terms[-1], tensors[0])
            line.made += 1
            line.site = record.site
        line.terms.append(term)
        first = weakref.ref(tensors[0])
        self._lines[key] = (line, first)
        if len(self._newest) > LIMIT:  # many short-lived ones, as in meta-learning
            self._newest.clear()
            self._line_of.clear()
            self._versions.clear()
        self._newest[record.number], self._line_of[record.number] = (term, first), line

    def _end(self, term: Term, tensor: Tensor) -> None:
        term.steps = self._optimizers.all[term.number].all_steps - term.begun if term.number < len(self._optimizers.all) else 0
        term.rewritten = self._versions.pop(term.number, tensor._version) != tensor._version
        self._newest.pop(term.number, None)

    def before_step(self, step: Step) -> None:
        """An optimizer that has lost its state is as good as a new one."""
        number = step.record.number
        if number not in self._filled or step.optimizer.state:
            return
        self._filled.discard(number)
        line, newest = self._line_of.get(number), self._newest.get(number)
        tensor = newest[1]() if newest is not None else None
        if line is None or newest is None or tensor is None or step.inside:
            return
        self._end(newest[0], tensor)
        term = Term(number, float(step.optimizer.param_groups[0].get("lr", 0.0)), self._trace.steps, site=step.record.site)
        term.begun = step.record.all_steps
        line.made += 1
        line.cleared += 1
        line.terms.append(term)
        self._newest[number] = (term, newest[1])

    def after_step(self, step: Step) -> None:
        number = step.record.number
        if step.optimizer.state and len(self._filled) <= LIMIT:
            self._filled.add(number)
        newest = self._newest.get(number)
        if newest is not None and (tensor := newest[1]()) is not None:
            self._versions[step.record.number] = tensor._version
        if self._waiting and (load := self._waiting.pop(step.record.number, None)) is not None:
            load.used = _rates(step.optimizer.param_groups)

    def on_rest(self) -> None:
        """Steps are not told one by one now: what the weights' versions were is not known later."""
        self._versions.clear()

    def on_pass_ends(self, ended: Any) -> None:
        if ended.begun_step < self._trace.steps:
            for term, _ in self._newest.values():
                term.passes += 1
                term.loader = ended.loader.number

    def before_optimizer_load(self, called: Called) -> None:
        optimizer = called.args[0]
        number = self._numbers.get(id(optimizer), LIMIT)
        if number >= len(self._optimizers.all) or len(self._part.loads) >= LIMIT:
            return
        record = self._optimizers.all[number]
        if record.all_steps == 0:
            self._before = _rates(optimizer.param_groups)
            peaks = tuple(group.get("max_lr") for group in optimizer.param_groups)
            self._waiting[number] = Loaded(number, record.name, called.site, record.lrs, (), (), peaks=peaks)

    def after_optimizer_load(self, called: Called) -> None:
        number = self._numbers.get(id(called.args[0]), -1)
        load = self._waiting.get(number)
        if load is not None:
            groups = called.args[0].param_groups
            load.loaded = _rates(groups)
            if load.loaded == self._before:  # its own state, moved to a device; or rates that are the same anyway
                del self._waiting[number]
                return
            load.initial = tuple(float(group["initial_lr"]) if "initial_lr" in group else None for group in groups)
            if len(load.peaks) == len(groups) and all(
                peak is not None and peak == group.get("max_lr") for peak, group in zip(load.peaks, groups, strict=True)
            ):
                load.initial = load.made  # one cycle, the same as before: its rates follow from its peak
            self._part.loads.append(load)


def _rates(groups: list[dict[str, Any]]) -> tuple[float, ...]:
    return tuple(float(group.get("lr", 0.0)) for group in groups)


def _stateful(optimizer: Optimizer) -> bool:
    """Whether anything is lost with it: SGD without momentum keeps nothing."""
    if type(optimizer).__name__ == "SGD":
        return any(group.get("momentum") for group in optimizer.param_groups)
    return True


PATCHES = [Patch("optimizer_load", ("torch.optim.optimizer:Optimizer.load_state_dict",), subclasses=True, always=True)]
OBSERVERS = [RenewalWatch]
